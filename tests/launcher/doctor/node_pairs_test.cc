#include "launcher/doctor/node_pairs.h"

#include <gmock/gmock.h>

#include <set>

#include "launcher/doctor/node_report.h"

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(NodePairs, MeetOnceInAsFewRoundsAsThereCanBe) {
  for (int nodes = 2; nodes <= 17; ++nodes) {
    std::vector<std::vector<int>> partners;
    for (int node = 0; node < nodes; ++node) partners.push_back(PartnersOf(node, nodes));
    for (int node = 0; node < nodes; ++node) {
      const std::vector<int>& own = partners[static_cast<size_t>(node)];
      EXPECT_EQ(own.size(), static_cast<size_t>(nodes - 1 + nodes % 2));
      std::set<int> met;
      for (size_t round = 0; round < own.size(); ++round) {
        if (own[round] < 0) continue;
        EXPECT_TRUE(met.insert(own[round]).second) << nodes << " nodes, node " << node;
        EXPECT_EQ(partners[static_cast<size_t>(own[round])][round], node);
      }
      EXPECT_FALSE(met.contains(node));
      EXPECT_EQ(met.size(), static_cast<size_t>(nodes - 1));
    }
  }
}

TEST(BlameFor, ANodeWithMostOfItsLinksBadExplainsThem) {
  const std::vector<NodePair> failed = {{0, 2}, {2, 1}, {3, 2}, {1, 3}};
  const Blame blame = BlameFor(failed, 4);
  EXPECT_THAT(blame.nodes, ElementsAre(2));
  EXPECT_THAT(blame.links, ElementsAre(NodePair{1, 3}));
}

TEST(BlameFor, OneBadLinkBlamesNoNode) {
  const std::vector<NodePair> both_ways = {{0, 1}, {1, 0}};
  EXPECT_THAT(BlameFor(both_ways, 2).nodes, IsEmpty());
  EXPECT_EQ(BlameFor(both_ways, 2).links, both_ways);
}

TEST(JudgeNodes, PutsWhatDoesNotWorkBeforeNotesAndNamesTheHost) {
  NodesTest test;
  for (const char* host : {"a", "b", "c"}) {
    test.nodes.push_back({.host = host, .mtu = 1500, .ddprun = "1", .free_bytes = 1ll << 40});
  }
  test.nodes[0].mtu = 9000;
  test.nodes[1].ddprun = "2";
  test.links = {{.from = 0, .to = 1, .clock_ms = 5000}, {.from = 0, .to = 2, .clock_ms = 1}};
  test.missing = {"host d"};
  const std::vector<Finding> findings = JudgeNodes(test);
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_THAT(findings[0].what, HasSubstr("host d did not come"));
  EXPECT_THAT(findings[1].what, HasSubstr("host b has 2; 2 others: 1"));
  EXPECT_THAT(findings[2].what, HasSubstr("host a has 9000; 2 others: 1500"));
  EXPECT_THAT(findings[3].what, HasSubstr("host b is 4999 ms off"));
  EXPECT_EQ(findings[1].verdict, Verdict::kMissing);
  EXPECT_EQ(findings[2].verdict, Verdict::kNote);
}

TEST(JudgeNodes, AFolderThatNoOtherNodeSharesIsANote) {
  NodesTest test;
  for (const char* host : {"a", "b", "c"}) {
    test.nodes.push_back({.host = host, .free_bytes = 1ll << 40});
  }
  test.without_file = {1, 2};
  EXPECT_EQ(JudgeNodes(test).front().verdict, Verdict::kNote);
  test.without_file = {1};
  EXPECT_EQ(JudgeNodes(test).front().verdict, Verdict::kMissing);
  EXPECT_THAT(JudgeNodes(test).front().what, HasSubstr("not seen by b"));
}

}  // namespace
}  // namespace ddprun::launcher

#include "rendezvous/assign_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/store_host.h"

namespace ddprun::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(AssignRanks, SumsInTheOrderOfNodes) {
  const std::vector<RoleInfo> nodes = {{"default", 0, 3}, {"default", 1, 2}};
  EXPECT_THAT(AssignRanks(nodes),
              ElementsAre(AssignedRanks{0, 5, 0, 5}, AssignedRanks{3, 5, 3, 5}));
}

TEST(AssignRanks, CountsEachRoleApart) {
  const std::vector<RoleInfo> nodes = {{"trainer", 0, 2}, {"reader", 1, 1}, {"trainer", 2, 4}};
  EXPECT_THAT(AssignRanks(nodes), ElementsAre(AssignedRanks{0, 7, 0, 6}, AssignedRanks{2, 7, 0, 1},
                                              AssignedRanks{3, 7, 2, 6}));
}

TEST(RoundEnd, IsReadAsItWasWritten) {
  const auto worker = std::make_shared<const nlohmann::json>(nlohmann::json{{"rank", 5}});
  const RoundEnd read = ParseNote(ToNote({.kind = RoundEnd::Kind::kRestart,
                                          .node_rank = 2,
                                          .message = "rank 5 said \"no\"\n",
                                          .exit_code = 42,
                                          .worker = worker}));
  EXPECT_EQ(read.kind, RoundEnd::Kind::kRestart);
  EXPECT_EQ(read.node_rank, 2);
  EXPECT_EQ(read.message, "rank 5 said \"no\"\n");
  EXPECT_EQ(read.exit_code, 42);
  EXPECT_EQ(*read.worker, *worker);
}

TEST(RoundEnd, IsNeverLostForItsForm) {
  for (const char* text : {"what?", "", "{}", "[1]", R"({"message": "x"})"}) {
    EXPECT_EQ(ParseNote(text).message, text);
    EXPECT_EQ(ParseNote(text).node_rank, -1);
    EXPECT_EQ(ParseNote(text).exit_code, 1);
  }
}

TEST(RoundEnd, NeverMeansSuccess) {
  for (const char* code : {"0", "256", "-1", "\"7\"", "1e300"}) {
    const std::string note = R"({"node_rank": 1, "message": "x", "exit_code": )";
    EXPECT_EQ(ParseNote(note + code + "}").exit_code, 1) << code;
  }
}

TEST(RoundEnd, SaysNothingThatATerminalObeys) {
  EXPECT_EQ(ParseNote(ToNote({.message = "evil \x1b[2Jtext"})).message, "evil text");
  EXPECT_EQ(ParseNote("\x1b[Anode 1 is gone").message, "node 1 is gone");
}

TEST(RoundEnd, WithoutARestartSaysWhy) {
  const RoundEnd end = WithoutRestart({.kind = RoundEnd::Kind::kRestart, .message = "rank 1 died"});
  EXPECT_EQ(end.kind, RoundEnd::Kind::kJobFailed);
  EXPECT_THAT(end.message, testing::StartsWith("rank 1 died (no restart: a node of this job runs"));
}

TEST(JoinText, NamesTheMissingRanks) {
  EXPECT_EQ(DescribeJoined(4, std::vector{2, 3}), "2 of 4 nodes joined, missing: 2, 3");
  EXPECT_EQ(DescribeJoined(8, std::vector{1, 3, 4, 5, 7}),
            "3 of 8 nodes joined, missing: 1, 3-5, 7");
  EXPECT_EQ(DescribeJoined(2, {}), "2 of 2 nodes joined");
  std::vector<int> every_second;
  for (int rank = 1; rank < 10'000; rank += 2) every_second.push_back(rank);
  EXPECT_THAT(DescribeJoined(10'000, every_second), HasSubstr("35, 37, 39 and 4980 more"));
}

std::vector<asio::ip::address> Addresses(const std::vector<std::string>& texts) {
  std::vector<asio::ip::address> addresses;
  for (const auto& text : texts) addresses.push_back(asio::ip::make_address(text));
  return addresses;
}

TEST(OwnAddresses, LeavesOutThoseOfOtherMachines) {
  EXPECT_THAT(OwnAddresses("localhost", Addresses({"127.0.0.1", "192.0.2.1"}), 2),
              ElementsAre(asio::ip::make_address("127.0.0.1")));
}

TEST(ExposureWarning, IsGivenWhereOthersReachTheStore) {
  EXPECT_EQ(ExposureWarning(Addresses({"127.0.0.1", "::1"}), 4000, nullptr), "");
  EXPECT_THAT(ExposureWarning(Addresses({"127.0.0.1", "192.0.2.1"}), 4000, nullptr),
              HasSubstr("192.0.2.1:4000"));
  EXPECT_THAT(ExposureWarning({}, 4000, nullptr), HasSubstr("port 4000 of this machine"));
}
TEST(OwnAddresses, DoesNotHideANodeOnTheLoopbackThatItsNameMeansThere) {
  EXPECT_THAT(OwnAddresses("node0", Addresses({"127.0.1.1"}), 2), IsEmpty());
  EXPECT_THAT(OwnAddresses("node0", Addresses({"127.0.1.1"}), 1),
              ElementsAre(asio::ip::make_address("127.0.1.1")));
}

}  // namespace
}  // namespace ddprun::rendezvous

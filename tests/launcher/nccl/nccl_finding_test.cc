#include "launcher/nccl/nccl_finding.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun::launcher {
namespace {

using Lines = std::vector<std::string>;

const NcclGroup kWorld{.name = "0", .description = "default_pg", .ranks = {0, 1, 2}};
const NcclGroup kPair{.name = "7", .description = "tp", .ranks = {0, 1}};

NcclCall Call(int64_t number, bool is_complete, const std::string& operation = "all_reduce") {
  return {.group = "0",
          .number = number,
          .operation = operation,
          .input = "[4] of Float",
          .elements = 4,
          .is_complete = is_complete,
          .caller = "f at t.py:" + std::to_string(number)};
}

NcclCall InPair(NcclCall call) {
  call.group = "7";
  return call;
}

NcclDump Dump(int rank, std::vector<NcclCall> calls, std::vector<NcclGroup> groups = {kWorld}) {
  return {.rank = rank, .groups = std::move(groups), .calls = std::move(calls)};
}

// Without the title.
Lines LinesOf(const NcclFinding& finding) {
  return finding.lines.empty() ? Lines() : Lines(finding.lines.begin() + 1, finding.lines.end());
}

TEST(NcclFinding, IsEmptyIfNobodyWaits) {
  EXPECT_TRUE(ExplainNccl({}).lines.empty());
  const std::vector<NcclDump> dumps = {Dump(0, {Call(1, true)}), Dump(1, {})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_TRUE(finding.lines.empty());
  EXPECT_TRUE(finding.ranks.empty());
  EXPECT_EQ(finding.last_calls,
            (Lines{"What NCCL's groups recorded (PyTorch's flight recorder):",
                   "  rank 0: last call: all_reduce 1 of group 0, [4] of Float, called in f at "
                   "t.py:1"}));
}

TEST(NcclFinding, NamesTheRankThatDidNotCome) {
  const std::vector<NcclDump> dumps = {Dump(0, {Call(1, true), Call(2, false), Call(3, false)}),
                                       Dump(1, {Call(1, true)}),
                                       Dump(2, {Call(1, true), Call(2, false)})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_EQ(finding.ranks, std::vector<int>{1});
  EXPECT_EQ(finding.reason, "has not come to all_reduce 2 of group 0 (default_pg)");
  EXPECT_EQ(finding.lines[0], "What NCCL's groups recorded (PyTorch's flight recorder):");
  EXPECT_EQ(LinesOf(finding),
            (Lines{"rank 1 has not come to all_reduce 2 of group 0 (default_pg), in which others "
                   "wait:",
                   "  ranks 0 and 2: in all_reduce 2, [4] of Float, called in f at t.py:2",
                   "  rank 1: last call: all_reduce 1, [4] of Float, called in f at t.py:1"}));
}

TEST(NcclFinding, KnowsRanksThatCalledNothing) {
  const std::vector<NcclDump> dumps = {Dump(0, {Call(1, false)}), Dump(1, {}), Dump(2, {}, {})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_EQ(finding.ranks, (std::vector<int>{1, 2}));
  EXPECT_EQ(LinesOf(finding)[0],
            "ranks 1 and 2 have not come to all_reduce 1 of group 0 (default_pg), in which others "
            "wait:");
  EXPECT_EQ(LinesOf(finding)[2], "  ranks 1 and 2: no call of this group yet");
}

TEST(NcclFinding, TheRootOfABroadcastMayBeDone) {
  const std::vector<NcclDump> dumps = {Dump(0, {Call(1, true, "broadcast")}),
                                       Dump(1, {Call(1, false, "broadcast")}), Dump(2, {})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_EQ(finding.ranks, std::vector<int>{2});
  EXPECT_EQ(LinesOf(finding)[1],
            "  rank 0: done with broadcast 1, [4] of Float, called in f at t.py:1");
}

TEST(NcclFinding, ARankThatWaitsElsewhereIsAVictim) {
  // Rank 2 waits for rank 0 in the world, rank 0 waits for rank 1 in the pair.
  const std::vector<NcclDump> dumps = {Dump(0, {InPair(Call(5, false))}, {kWorld, kPair}),
                                       Dump(1, {}, {kWorld, kPair}), Dump(2, {Call(1, false)})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_EQ(finding.ranks, std::vector<int>{1});
  const Lines lines = LinesOf(finding);
  EXPECT_EQ(lines[0],
            "ranks 0 and 1 have not come to all_reduce 1 of group 0 (default_pg), in which others "
            "wait:");
  EXPECT_EQ(lines[3],
            "  rank 0: no call of this group yet; now in all_reduce 5 of group 7, [4] of Float, "
            "called in f at t.py:5");
}

TEST(NcclFinding, TwoThatWaitForEachOtherInTwoGroupsNoneStandsOut) {
  const std::vector<NcclDump> dumps = {Dump(0, {InPair(Call(1, false))}, {kWorld, kPair}),
                                       Dump(1, {Call(1, false)}, {kWorld, kPair}),
                                       Dump(2, {Call(1, false)})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_TRUE(finding.ranks.empty());
  EXPECT_EQ(LinesOf(finding).size(), 6U) << "both groups are explained";
}

TEST(NcclFinding, NamesTheRankThatCalledSomethingElse) {
  const std::vector<NcclDump> dumps = {Dump(0, {Call(2, false)}), Dump(1, {Call(2, false)}),
                                       Dump(2, {Call(2, false, "broadcast")})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_EQ(finding.ranks, std::vector<int>{2});
  EXPECT_EQ(finding.reason, "differs from the others in broadcast 2 of group 0 (default_pg)");
  EXPECT_EQ(LinesOf(finding)[0], "The ranks of group 0 (default_pg) differ in their collective 2:");
}

TEST(NcclFinding, ComparesSizesWhereTheyHaveToBeEqual) {
  NcclCall longer = Call(2, false);
  longer.elements = 5;
  std::vector<NcclDump> dumps = {Dump(0, {Call(2, false)}), Dump(1, {longer}),
                                 Dump(2, {Call(2, false)})};
  EXPECT_EQ(ExplainNccl(dumps).ranks, std::vector<int>{1});
  for (NcclDump& dump : dumps) dump.calls[0].operation = "all_to_all";
  const NcclFinding equal = ExplainNccl(dumps);
  EXPECT_TRUE(equal.ranks.empty());
  EXPECT_EQ(LinesOf(equal)[0],
            "All ranks of group 0 (default_pg) came to all_to_all 2, which does not end; look at "
            "the GPUs and the network (NCCL_DEBUG=INFO):");
}

TEST(NcclFinding, OfTwoThatDifferNeitherStandsOut) {
  const std::vector<NcclDump> dumps = {Dump(0, {InPair(Call(2, false))}, {kPair}),
                                       Dump(1, {InPair(Call(2, false, "broadcast"))}, {kPair})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_TRUE(finding.ranks.empty());
  EXPECT_EQ(LinesOf(finding)[0], "The ranks of group 7 (tp) differ in their collective 2:");
}

TEST(NcclFinding, SaysOfWhichRanksThereIsNoDump) {
  const std::vector<NcclDump> dumps = {Dump(1, {Call(2, false)})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_TRUE(finding.ranks.empty());
  EXPECT_EQ(LinesOf(finding)[0],
            "Ranks wait in all_reduce 2 of group 0 (default_pg); there is no dump here of ranks 0 "
            "and 2:");
}

TEST(NcclFinding, AWaitForAMessageIsTold) {
  NcclCall message = Call(3, false, "recv 1<-0");
  message.is_message = true;
  const std::vector<NcclDump> dumps = {Dump(0, {Call(1, true)}), Dump(1, {message})};
  const NcclFinding finding = ExplainNccl(dumps);
  EXPECT_TRUE(finding.ranks.empty());
  EXPECT_EQ(LinesOf(finding), (Lines{"  rank 1: in recv 1<-0 3 of group 0, [4] of Float, called in "
                                     "f at t.py:3"}));
}

TEST(NcclFinding, GroupsOfOneNameAndOtherRanksAreApart) {
  const NcclGroup one{.name = "7", .ranks = {0, 1}};
  const NcclGroup other{.name = "7", .ranks = {2, 3}};
  const std::vector<NcclDump> dumps = {
      Dump(0, {InPair(Call(2, false))}, {one}), Dump(1, {InPair(Call(2, false))}, {one}),
      Dump(2, {InPair(Call(1, true))}, {other}), Dump(3, {InPair(Call(1, true))}, {other})};
  EXPECT_TRUE(ExplainNccl(dumps).ranks.empty()) << "ranks 2 and 3 are in another group";
}

}  // namespace
}  // namespace ddprun::launcher

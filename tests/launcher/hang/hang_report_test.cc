#include "launcher/hang/hang_report.h"

#include <gtest/gtest.h>

#include "tests/launcher/hang/worker_activities.h"

namespace ddprun::launcher {
namespace {

using State = CollectiveState;
using std::chrono::seconds;

HangReport ThreeRanks() {
  HangReport report{.timeout = seconds(300),
                    .still_for = seconds(312),
                    .now = RecordedCollective::Time(seconds(412))};
  WorkerActivity waiting = In(0, 418, State::kWaiting);
  RecordedCollective& collective = waiting.flight->collectives.back();
  collective.bucket = 3;
  collective.bytes = 25'000'000;
  collective.type = "float32";
  collective.step = 57;
  waiting.place = {.state = 'S', .where = "futex (a lock or a thread's end)"};
  WorkerActivity stopped = In(2, 417, State::kCompleted);
  stopped.place = {.state = 'T'};
  report.activities = {waiting, At(1, 'S', 0), stopped};
  report.culprit = {{2}, "is stopped (state T): by SIGSTOP, or by a debugger"};
  report.printed_stacks = true;
  return report;
}

TEST(HangReport, PutsTheCulpritFirstAndSaysWhereEveryRankStands) {
  EXPECT_EQ(
      RenderHang(ThreeRanks(), "train.json", {}),
      "-- WORKERS HANG ----------------------------------------------------------------- "
      "train.json\n"
      "No worker of this node has moved for 312 s (--hang_timeout=300 s).\n"
      "The others wait for: rank 2 is stopped (state T): by SIGSTOP, or by a debugger.\n"
      "  rank 2 (local_rank: 2, pid: 102) was last seen in all_reduce 417, which ended 311 s ago; "
      "state T (stopped by a signal)\n"
      "  rank 0 (local_rank: 0, pid: 100) waits in all_reduce 418 (bucket 3, 25.0 MB of float32) "
      "of step 57 for 312 s; state S (sleeping), in futex (a lock or a thread's end)\n"
      "  rank 1 (local_rank: 1, pid: 101) state S (sleeping), in somewhere; has not moved for "
      "60.0 s, nor printed for 60.0 s\n"
      "The stacks that the workers printed when they were ended stand above.\n"
      "More: ddprun explain workers-hang\n");
}

TEST(HangReport, SaysWhoIsInAGroupOfSomeRanks) {
  HangReport report = ThreeRanks();
  report.activities[0].flight->collectives.back().group = 5;
  report.activities[0].flight->groups = {3, 5};
  report.activities[2].flight->groups = {5};
  const std::string text = RenderHang(report, "train.json", {});
  EXPECT_NE(text.find("in futex (a lock or a thread's end); its group here: ranks 0 and 2\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("its group"), text.rfind("its group")) << text;
}

TEST(HangReport, ShowsWhatTheCulpritsSaidLast) {
  HangReport report = ThreeRanks();
  for (WorkerActivity& activity : report.activities) {
    const std::string last = "of " + std::to_string(activity.rank);
    if (activity.flight) activity.flight->log = {"a", "b", "c", last};
  }
  const std::string text = RenderHang(report, "train.py", {});
  EXPECT_NE(text.find("by a signal)\n    | b\n    | c\n    | of 2\n  rank 0"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("of 0"), std::string::npos) << text;
}

TEST(HangReport, NamesNobodyWhenNoRankStandsOutAndNoStacksThatAreNotThere) {
  HangReport report = ThreeRanks();
  report.culprit = {};
  report.printed_stacks = false;
  const std::string text = RenderHang(report, "train.py", {});
  EXPECT_NE(text.find("\nNo rank stands out.\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("wait for"), std::string::npos) << text;
  EXPECT_EQ(text.find("stacks"), std::string::npos) << text;
}

TEST(HangReport, SaysWhatToDoIfNoRankStandsOutAndNoneRecordsItsCollectives) {
  HangReport report = ThreeRanks();
  report.culprit = {};
  for (WorkerActivity& activity : report.activities) activity.flight.reset();
  const std::string text = RenderHang(report, "train.py", {});
  EXPECT_NE(text.find("No rank stands out.\nThese workers leave no record of their collectives."),
            std::string::npos)
      << text;
}

TEST(HangReport, NamesADeadLinkInPlaceOfACulpritWhoOnlyWaitsForIt) {
  HangReport report = ThreeRanks();
  report.dead_links = {{2, "10.0.0.3:51812", "10.0.0.2:40112", 1234, 7}};
  const std::string reason =
      "10.0.0.2:40112 does not acknowledge what rank 2 sends from 10.0.0.3:51812 (1234 bytes, sent "
      "again 7 times)";
  const std::string text = RenderHang(report, "train.py", {});
  EXPECT_NE(text.find("\nA link between nodes is dead: " + reason + ".\n`ddprun doctor --nodes`"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("The others wait for"), std::string::npos) << text;
  EXPECT_EQ(Summarize(report), "no worker has moved for 312 s: " + reason);
}

TEST(HangReport, OfSeveralNodesSaysWhereToLookIfNoRankStandsOut) {
  HangReport report = ThreeRanks();
  report.culprit = {};
  report.several_nodes = true;
  const std::string text = RenderHang(report, "train.py", {});
  EXPECT_NE(text.find("No rank stands out.\nThe output of the other nodes may name"),
            std::string::npos)
      << text;
}

TEST(HangReport, ListsTheRanksThatHaveEndedBeforeThoseThatStandStill) {
  HangReport report = ThreeRanks();
  report.ended = {In(3, 417, State::kCompleted), {.rank = 4, .local_rank = 4, .pid = 104}};
  const std::string text = RenderHang(report, "train.py", {});
  EXPECT_NE(text.find("  rank 3 (local_rank: 3, pid: 103) has ended with code 0; was last seen in "
                      "all_reduce 417, which ended 311 s ago\n"
                      "  rank 4 (local_rank: 4, pid: 104) has ended with code 0\n"
                      "  rank 2 (local_rank: 2, pid: 102) was last seen"),
            std::string::npos)
      << text;
}

TEST(HangReport, HasWhatTheGroupsOfNcclRecorded) {
  HangReport report = ThreeRanks();
  report.nccl = {"What NCCL recorded:", "rank 1 has not come"};
  EXPECT_NE(RenderHang(report, "train.py", {})
                .find("\nWhat NCCL recorded:\nrank 1 has not come\nThe stacks that"),
            std::string::npos);
}

TEST(HangReport, SaysWhoWaitsInTheStore) {
  HangReport report = ThreeRanks();
  report.waits = {
      {.rank = 1, .pid = 101, .status = {.peer = "", .keys = {"/a"}, .waited = seconds(40)}}};
  const std::string text = RenderHang(report, "train.py", {});
  EXPECT_NE(text.find("Waits in the store:\n  rank 1"), std::string::npos) << text;
}

TEST(HangReport, IsOneLineForOtherNodes) {
  EXPECT_EQ(Summarize(ThreeRanks()),
            "no worker has moved for 312 s: rank 2 is stopped (state T): by SIGSTOP, or by a "
            "debugger");
  HangReport none = ThreeRanks();
  none.culprit = {};
  EXPECT_EQ(Summarize(none), "no worker has moved for 312 s: no rank stands out");
  none.culprit = {{1, 2, 5, 7}, "has not come to barrier 3"};
  EXPECT_EQ(Summarize(none),
            "no worker has moved for 312 s: ranks 1, 2 and 2 others, each of which has not come "
            "to barrier 3");
}

TEST(HangReport, SaysWhenARankHasBegunNothing) {
  WorkerActivity fresh{.flight = FlightSnapshot{}};
  EXPECT_EQ(DescribeActivity(fresh, {}), "has begun no collective yet; state ? (unknown)");
}

TEST(HangReport, StaysReadableWithManyRanks) {
  HangReport report = ThreeRanks();
  for (int rank = 3; rank < 100; ++rank) report.activities.push_back(At(rank, 'S', 0));
  EXPECT_NE(RenderHang(report, "x", {}).find("  and 36 more ranks\n"), std::string::npos);
}

}  // namespace
}  // namespace ddprun::launcher

#include "rendezvous/elastic/round_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/rendezvous/elastic/round_state_nodes.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = RoundEnd::Kind;

constexpr NodeId kA = 1, kB = 2, kC = 3, kD = 4;

using Nodes = std::vector<NodeId>;

TEST_F(RoundStateTest, StartsAtOnceWhenTheLastNodeIsIn) {
  Make(3, 3);
  Join(kA);
  Join(kB);
  EXPECT_THAT(Told<StartRound>(), IsEmpty());
  EXPECT_EQ(Last<ReportProgress>().line, "1 of 3 nodes joined");
  Join(kC);
  EXPECT_EQ(Told<StartRound>(), (Nodes{kA, kB, kC}));
  for (const NodeId id : {kA, kB, kC}) {
    const Membership& membership = memberships_[id];
    EXPECT_EQ(membership.node_rank, static_cast<int>(id) - 1);
    EXPECT_EQ(membership.base_rank, static_cast<int>(id) - 1);
    EXPECT_EQ(membership.nnodes, 3);
    EXPECT_EQ(membership.world_size, 3);
    EXPECT_EQ(membership.round, 0);
    EXPECT_EQ(membership.master_addr, "10.0.0.1");
    EXPECT_EQ(membership.master_port, 4000);
  }
}

TEST_F(RoundStateTest, WaitsForTheLastCallBetweenMinAndMax) {
  Make(1, 3);
  Join(kA);
  EXPECT_EQ(state_->NextDeadline(), now_ + seconds(30));
  Pass(seconds(10));
  Join(kB);
  Pass(seconds(19));
  EXPECT_THAT(Told<StartRound>(), IsEmpty());
  EXPECT_EQ(state_->NextDeadline(), now_ + seconds(1));
  Pass(seconds(1));
  EXPECT_EQ(Told<StartRound>(), (Nodes{kA, kB}));
  EXPECT_EQ(state_->NextDeadline(), std::nullopt);
}

TEST_F(RoundStateTest, ALostNodeStopsTheLastCall) {
  Make(2, 3);
  Join(kA);
  Join(kB);
  Lose(kB);
  Pass(seconds(40));
  EXPECT_THAT(Told<StartRound>(), IsEmpty());
  Join(kC);
  Pass(seconds(30));
  EXPECT_EQ(Told<StartRound>(), (Nodes{kA, kC}));
}

TEST_F(RoundStateTest, ARestartIsOfAllNodesAndCountedOnce) {
  Make(2, 2, 3);
  Join(kA);
  Join(kB);
  End(kB, Kind::kRestart, "rank 1 exited with 7");
  EXPECT_EQ(Told<ReportEnd>(), (Nodes{kA, kB}));
  EXPECT_EQ(Last<ReportEnd>().end.node_rank, 1);
  EXPECT_EQ(Last<ReportEnd>().end.message, "rank 1 exited with 7");
  End(kA, Kind::kRestart);  // it crossed
  EXPECT_EQ(Told<ReportEnd>().size(), 2);
  Join(kA);
  Pass(seconds(1));
  EXPECT_THAT(Last<ReportProgress>().line, HasSubstr("waiting for node 1 (b, pid 102) to stop"));
  Join(kB);
  EXPECT_EQ(Told<StartRound>().size(), 4);
  EXPECT_EQ(memberships_[kA].restart_count, 1);
  EXPECT_EQ(memberships_[kB].restart_count, 1);
  EXPECT_EQ(memberships_[kB].round, 1);
  EXPECT_EQ(memberships_[kB].node_rank, 1);
}

TEST_F(RoundStateTest, ALaterRoundNeedsNoLastCall) {
  Make(1, 4, 1);
  Join(kA);
  Join(kB);
  Pass(seconds(30));
  End(kA, Kind::kRestart);
  Join(kB);
  Join(kA);
  EXPECT_EQ(Told<StartRound>(), (Nodes{kA, kA, kB, kB}));
  EXPECT_EQ(memberships_[kA].node_rank, 0);
}

TEST_F(RoundStateTest, ANodeThatComesWhereThereIsRoomRegroupsUncounted) {
  Make(1, 2);
  Join(kA);
  Pass(seconds(30));
  EXPECT_EQ(memberships_[kA].nnodes, 1);
  Join(kB, 0);
  EXPECT_EQ(Told<ReportEnd>(), (Nodes{kA}));
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  Join(kA);
  for (const NodeId id : {kA, kB}) {
    EXPECT_EQ(memberships_[id].nnodes, 2);
    EXPECT_EQ(memberships_[id].restart_count, 0);
    EXPECT_EQ(memberships_[id].round, 1);
  }
  EXPECT_EQ(memberships_[kA].node_rank, 0) << "it was there first, whatever the other wishes";
}

TEST_F(RoundStateTest, ANodeThatComesWhileARoundIsFormedIsTakenIn) {
  Make(1, 2);
  answering_ = false;
  Join(kA);
  Pass(seconds(30));
  const int64_t stale = Last<OpenStore>().attempt;
  Join(kB);
  EXPECT_GT(Last<OpenStore>().attempt, stale);
  EXPECT_THAT(state_->OnOpened(kA, stale, {"10.0.0.1", 1}), IsEmpty());
  answering_ = true;
  Take(state_->OnOpened(kA, Last<OpenStore>().attempt, {"10.0.0.1", 2}));
  EXPECT_EQ(Told<StartRound>(), (Nodes{kA, kB}));
  EXPECT_EQ(memberships_[kB].master_port, 2);
}

TEST_F(RoundStateTest, ANodeLostWhileARoundIsFormedIsWaitedForAnew) {
  Make(2, 2);
  answering_ = false;
  Join(kA);
  Join(kB);
  Take(state_->OnOpened(kA, Last<OpenStore>().attempt, {"10.0.0.1", 1}));
  Lose(kA);
  EXPECT_THAT(Told<StartRound>(), IsEmpty());
  answering_ = true;
  Join(kC);
  EXPECT_EQ(Told<StartRound>(), (Nodes{kB, kC}));
}

TEST_F(RoundStateTest, ALostNodeOfAnElasticJobRegroups) {
  Make(1, 2);
  Join(kA);
  Join(kB);
  Lose(kB);
  EXPECT_EQ(Told<ReportEnd>(), (Nodes{kA}));
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  EXPECT_EQ(Last<ReportEnd>().end.message,
            "node 1 (b, pid 102) is gone: its connection was closed");
  Join(kA);
  EXPECT_EQ(memberships_[kA].nnodes, 1);
  Join(kC);
  Join(kA);
  EXPECT_EQ(memberships_[kC].node_rank, 1);
  EXPECT_EQ(memberships_[kA].node_rank, 0);
  EXPECT_EQ(memberships_[kA].restart_count, 0);
}

TEST_F(RoundStateTest, ALostNodeOfAFixedJobUsesUpARestart) {
  Make(2, 2, 1);
  Join(kA);
  Join(kB);
  Lose(kA);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRestart);
  Join(kB);
  Pass(seconds(1));
  EXPECT_THAT(Last<ReportProgress>().line, HasSubstr("a replacement of node 0 (a, pid 101)"));
  Join(kC);
  EXPECT_EQ(memberships_[kC].node_rank, 0);
  EXPECT_EQ(memberships_[kB].node_rank, 1);
  EXPECT_EQ(memberships_[kC].restart_count, 1);
  Lose(kC);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kJobFailed);
  EXPECT_TRUE(state_->done());
}

TEST_F(RoundStateTest, WithoutAReplacementTheJobEndsAtTheJoinTimeout) {
  Make(2, 2, 5);
  Join(kA);
  Join(kB);
  Lose(kB);
  Pass(seconds(3));
  Join(kA);
  Pass(seconds(600));
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kA}));
  EXPECT_EQ(Last<RefuseJoin>().error.page, "nodes-missing");
  EXPECT_THAT(Last<RefuseJoin>().error.what, HasSubstr("node 1 (b, pid 102)"));
  EXPECT_TRUE(state_->done());
}

TEST_F(RoundStateTest, BeforeTheFirstRoundEachNodeGivesUpForItself) {
  Make(3, 3);
  Join(kA);
  Pass(seconds(300));
  Join(kB);
  Pass(seconds(300));
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kA}));
  EXPECT_FALSE(state_->done());
}

TEST_F(RoundStateTest, SparesWaitAndFillHoles) {
  Make(2, 2, 1);
  Join(kA);
  Join(kB);
  Join(kC);
  EXPECT_THAT(Told<ReportEnd>(), IsEmpty());
  EXPECT_THAT(Last<ReportProgress>().line, HasSubstr("spare"));
  Lose(kA);
  Join(kB);
  EXPECT_EQ(memberships_[kC].node_rank, 0);
  EXPECT_EQ(memberships_[kB].node_rank, 1);
}

TEST_F(RoundStateTest, ASpareDoesNotDisplaceANodeThatStopsItsWorkers) {
  Make(2, 2, 1);
  Join(kA);
  Join(kB);
  Join(kC);
  End(kA, Kind::kRestart);
  Join(kA);
  Pass(seconds(29));
  Join(kB);
  EXPECT_EQ(memberships_[kB].round, 1);
  EXPECT_EQ(memberships_.count(kC), 0);
}

TEST_F(RoundStateTest, AllLeaveTogether) {
  Make(2, 2);
  Join(kA);
  Join(kB);
  Leave(kA);
  EXPECT_THAT(Told<AllLeft>(), IsEmpty());
  Leave(kB);
  EXPECT_EQ(Told<AllLeft>(), (Nodes{kA, kB}));
  Join(kC);
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kC}));
  EXPECT_THAT(Last<RefuseJoin>().error.what, HasSubstr("ended well"));
}

TEST_F(RoundStateTest, AFailureReachesThoseWhoWaitAtTheExit) {
  Make(2, 2);
  Join(kA);
  Join(kB);
  Leave(kA);
  End(kB, Kind::kJobFailed, "rank 1 exited with 7");
  EXPECT_EQ(Told<ReportEnd>(), (Nodes{kA, kB}));
  EXPECT_THAT(Told<AllLeft>(), IsEmpty());
  Join(kC);
  EXPECT_THAT(Last<RefuseJoin>().error.what, HasSubstr("It failed: rank 1 exited with 7."));
}

TEST_F(RoundStateTest, WhoWaitsAtTheExitJoinsARestart) {
  Make(2, 2, 1);
  Join(kA);
  Join(kB);
  Leave(kA);
  End(kB, Kind::kRestart);
  Join(kA);
  Join(kB);
  Leave(kB);
  EXPECT_THAT(Told<AllLeft>(), IsEmpty());
  Leave(kA);
  EXPECT_EQ(Told<AllLeft>(), (Nodes{kA, kB}));
}

TEST_F(RoundStateTest, AnAgentThatDiesAtTheExitIsMissedOnlyIfItHasTheStore) {
  Make(2, 2);
  Join(kA);
  Join(kB);
  Leave(kB);
  Lose(kB);
  EXPECT_THAT(Told<ReportEnd>(), IsEmpty());
  Leave(kA);
  EXPECT_EQ(Told<AllLeft>(), (Nodes{kA}));

  Make(2, 2);
  Join(kA);
  Join(kB);
  Leave(kA);
  Lose(kA);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kJobFailed);
}

TEST_F(RoundStateTest, ANewcomerDoesNotUndoFinishedWork) {
  Make(1, 3);
  Join(kA);
  Join(kB);
  Pass(seconds(30));
  Leave(kA);
  Join(kC);
  EXPECT_THAT(Told<ReportEnd>(), IsEmpty());
  Leave(kB);
  EXPECT_EQ(Told<AllLeft>(), (Nodes{kA, kB}));
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kC}));
}

TEST_F(RoundStateTest, AWithdrawnNodeIsLikeALostOne) {
  Make(1, 2);
  Join(kA);
  Join(kB);
  Take(state_->OnWithdraw(kA, {.message = "node 0 was stopped by SIGTERM"}, false, now_));
  EXPECT_EQ(Told<ReportEnd>(), (Nodes{kB}));
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  EXPECT_EQ(Last<ReportEnd>().end.message, "node 0 was stopped by SIGTERM");
  Lose(kA);
  Join(kB);
  EXPECT_EQ(memberships_[kB].node_rank, 0);
}

TEST_F(RoundStateTest, WhenTheHostWithdrawsTheJobHasFailed) {
  Make(1, 2);
  Join(kA);
  Join(kB);
  Take(state_->OnWithdraw(kA, {.message = "stopped by SIGTERM"}, true, now_));
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kJobFailed);
  EXPECT_TRUE(state_->done());

  Make(2, 2);
  Join(kA);
  Take(state_->OnWithdraw(kB, {.message = "of nobody known"}, true, now_));
  Take(state_->OnWithdraw(kA, {.message = "stopped by SIGTERM"}, true, now_));
  EXPECT_THAT(Last<RefuseJoin>().error.what, HasSubstr("stopped by SIGTERM"));
}

TEST_F(RoundStateTest, SaysWhoCannotReachWhom) {
  Make(2, 2);
  answering_ = false;
  Join(kA);
  Join(kB);
  const int64_t attempt = Last<OpenStore>().attempt;
  Take(state_->OnOpened(kA, attempt, {"10.0.0.1", 4000}));
  Take(state_->OnReached(kA, attempt));
  Take(state_->OnUnreached(kB, attempt, "Connection refused", now_));
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kA, kB}));
  EXPECT_THAT(Last<RefuseJoin>().error.what,
              HasSubstr("node 1 (b, pid 102) cannot reach 10.0.0.1:4000, the store of node 0 (a, "
                        "pid 101): Connection refused"));
}

TEST_F(RoundStateTest, AJobThatHasRunGoesOnWithoutANewcomerThatCannotReachTheStore) {
  Make(1, 3);
  Join(kA);
  Join(kB);
  Pass(seconds(30));
  Join(kC);
  answering_ = false;
  Join(kA);
  Join(kB);
  const int64_t attempt = Last<OpenStore>().attempt;
  Take(state_->OnOpened(kA, attempt, {"10.0.0.1", 4000}));
  answering_ = true;
  Take(state_->OnUnreached(kC, attempt, "No route to host", now_));
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kC}));
  EXPECT_THAT(Last<RefuseJoin>().error.what, HasSubstr("node 2 (c, pid 103) cannot reach"));
  EXPECT_EQ(memberships_[kA].nnodes, 2);
  EXPECT_EQ(memberships_[kB].round, 1);
  EXPECT_EQ(Told<StartRound>().size(), 4);
  Lose(kC);
  EXPECT_EQ(Told<ReportEnd>(), (Nodes{kA, kB})) << "it was no part of the round";
}

TEST_F(RoundStateTest, ANewcomerWhoseStoreNobodyReachesIsRefusedItself) {
  Make(1, 2);
  Join(kA);
  Join(kB);
  Lose(kA);
  answering_ = false;
  Join(kC);
  Join(kB);
  const int64_t attempt = Last<OpenStore>().attempt;
  Take(state_->OnOpened(kC, attempt, {"10.0.0.3", 4000}));
  answering_ = true;
  Take(state_->OnUnreached(kB, attempt, "No route to host", now_));
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kC}));
  EXPECT_EQ(memberships_[kB].nnodes, 1);
}

TEST_F(RoundStateTest, AFixedJobWaitsForABetterReplacement) {
  Make(2, 2, 3);
  Join(kA);
  Join(kB);
  Lose(kB);
  Join(kA);
  answering_ = false;
  Join(kC);
  Pass(seconds(2));
  Take(state_->OnOpened(kA, Last<OpenStore>().attempt, {"10.0.0.1", 4000}));
  Take(state_->OnUnreached(kC, Last<OpenStore>().attempt, "No route to host", now_));
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kC}));
  EXPECT_THAT(Last<ReportProgress>().line, HasSubstr("a replacement of node 1 (b, pid 102)"));
  answering_ = true;
  Join(kD);
  EXPECT_EQ(memberships_[kD].node_rank, 1);
}

TEST_F(RoundStateTest, ANodeThatCannotOpenTheStoreSaysSoAndWhen) {
  Make(1, 1);
  answering_ = false;
  Join(kA);
  now_ += seconds(5);
  Take(state_->OnUnreached(kA, Last<OpenStore>().attempt, "Too many open files", now_));
  EXPECT_THAT(Last<RefuseJoin>().error.what,
              HasSubstr("node 0 (a, pid 101) cannot open its store: Too many open files"));
  EXPECT_EQ(state_->done_since(), now_);
}

TEST_F(RoundStateTest, WhoDoesNotComeBackInTimeIsLeftBehind) {
  Make(1, 2, 1);
  Join(kA);
  Join(kB);
  End(kA, Kind::kRestart);
  Join(kA);
  Pass(seconds(600));
  EXPECT_EQ(memberships_[kA].nnodes, 1);
  Join(kB);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  Join(kA);
  EXPECT_EQ(memberships_[kB].nnodes, 2);
  EXPECT_EQ(memberships_[kA].node_rank, 0);
}

TEST_F(RoundStateTest, IgnoresWhatBelongsToNoRound) {
  Make(1, 2);
  Lose(kD);
  Take(state_->OnReached(kD, 1));
  Take(state_->OnLeave(kD, 0, now_));
  Join(kA);
  Join(kB);
  log_.clear();
  End(kD, Kind::kJobFailed);
  Join(kA);
  Take(state_->OnOpened(kA, attempt_, {"x", 1}));
  Take(state_->OnUnreached(kA, attempt_, "late", now_));
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(RoundStateTest, ALineAboutManyNodesNamesTheFirstAndCountsTheRest) {
  Make(1000, 1000, 1);
  for (NodeId id = 1; id <= 1000; ++id) Join(id);
  const size_t before = log_.size();
  End(kA, Kind::kRestart);
  for (NodeId id = 11; id <= 900; ++id) {
    Join(id);
    Pass(milliseconds(10));
  }
  const std::string& line = Last<ReportProgress>().line;
  EXPECT_THAT(line, HasSubstr("waiting for node 2 (c, pid 103) to stop its workers"));
  EXPECT_THAT(line, HasSubstr(" more nodes to stop theirs"));
  size_t bytes = 0;
  for (size_t i = before; i < log_.size(); ++i) {
    if (const auto* told = std::get_if<ReportProgress>(&log_[i].what)) bytes += told->line.size();
  }
  EXPECT_LT(bytes, 4'000'000);
  for (NodeId id = 1; id <= 800; ++id) Lose(id);
  Pass(std::chrono::minutes(11));
  const std::string& refusal = Last<RefuseJoin>().error.what;
  EXPECT_THAT(refusal, HasSubstr("a replacement of node 0 (a, pid 101)"));
  EXPECT_THAT(refusal, HasSubstr("and of 797 more nodes"));
  EXPECT_LT(refusal.size(), 1000);
}

TEST_F(RoundStateTest, ANodeThatDoesNotAnswerIsGivenUp) {
  Make(1, 3);
  answering_ = false;
  for (const NodeId id : {kA, kB, kC}) Join(id);
  ASSERT_EQ(Told<OpenStore>(), Nodes{kA});
  Take(state_->OnOpened(kA, 1, {"10.0.0.1", 4000}));
  Take(state_->OnReached(kA, 1));
  Take(state_->OnReached(kC, 1));
  Pass(seconds(59));
  EXPECT_THAT(Told<RefuseJoin>(), IsEmpty());
  answering_ = true;
  now_ = *state_->NextDeadline();
  Take(state_->OnTime(now_));
  EXPECT_EQ(Told<RefuseJoin>(), Nodes{kB});
  EXPECT_THAT(Last<RefuseJoin>().error.what, HasSubstr("node 1 (b, pid 102)"));
  Pass(seconds(30));
  EXPECT_EQ(Told<StartRound>(), (Nodes{kA, kC}));
}

TEST_F(RoundStateTest, ANodeThatCrashesAgainAndAgainIsLetInEverMoreSeldom) {
  Make(1, 2);
  Join(kA);
  Pass(seconds(30));
  int came = 0;
  NodeId newcomer = kB;
  for (int second = 0; second < 600; ++second) {
    const auto rounds = Told<StartRound>().size();
    Join(newcomer);
    Join(kA);
    Pass(seconds(1));
    if (Told<StartRound>().size() == rounds) continue;
    ++came;
    Lose(newcomer++);
    Join(kA);
  }
  EXPECT_GE(came, 6);
  EXPECT_LE(came, 18);
}

TEST_F(RoundStateTest, ASpareTakesThePlaceOfALostNodeWithoutARestart) {
  Make(2, 2, 0, /*spares=*/1);
  for (const NodeId id : {kA, kB, kC}) Join(id);
  Lose(kA);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  Join(kB);
  EXPECT_EQ(memberships_[kC].node_rank, 0) << "the rank of the lost node";
  EXPECT_EQ(memberships_[kB].node_rank, 1);
  EXPECT_EQ(memberships_[kC].restart_count, 0);
  Lose(kC);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kJobFailed) << "no spare is left";
  EXPECT_THAT(Last<ReportEnd>().end.message, HasSubstr("node 0 (c, pid 103) is gone"));
}

TEST_F(RoundStateTest, AnUnfitSpareLeavesThePlaceToTheNext) {
  Make(2, 2, 0, /*spares=*/2);
  for (const NodeId id : {kA, kB, kC, kD}) Join(id);
  answering_ = false;
  Lose(kB);
  Take(state_->OnAnswer(kA, attempt_, /*goes_on=*/false, now_));
  Join(kA);
  Take(state_->OnWithdraw(kC, {.message = "c is unfit"}, /*ends_job=*/false, now_));
  answering_ = true;
  Take(state_->OnOpened(kA, Last<OpenStore>().attempt, {"10.0.0.1", 4000}));
  EXPECT_EQ(memberships_.count(kC), 0);
  EXPECT_EQ(memberships_[kD].node_rank, 1);
}

TEST_F(RoundStateTest, ASpareIsNotNeededWhenTheJobEndsWell) {
  Make(2, 2, 0, /*spares=*/1);
  for (const NodeId id : {kA, kB, kC}) Join(id);
  Leave(kA);
  Leave(kB);
  EXPECT_EQ(Told<RefuseJoin>(), (Nodes{kC}));
  EXPECT_EQ(Last<RefuseJoin>().error.code, Code::kNotNeeded);

  Make(2, 2, 0, /*spares=*/1);
  for (const NodeId id : {kA, kB, kC}) Join(id);
  End(kA, Kind::kJobFailed);
  EXPECT_EQ(Last<RefuseJoin>().error.code, Code::kRendezvous) << "a failed job is no success";
}

TEST_F(RoundStateTest, ASpareCannotEndTheJob) {
  Make(2, 2);
  for (const NodeId id : {kA, kB, kC}) Join(id);
  Take(state_->OnWithdraw(kC, {.message = "stopped"}, /*ends_job=*/true, now_));
  EXPECT_FALSE(state_->done());
  EXPECT_THAT(Told<ReportEnd>(), IsEmpty());
  Take(state_->OnWithdraw(kA, {.message = "stopped"}, /*ends_job=*/true, now_));
  EXPECT_TRUE(state_->done());
}

}  // namespace
}  // namespace ddprun::rendezvous

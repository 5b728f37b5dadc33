// A spare takes the place of a lost node while the round goes on, or the round ends as without it.
#include "rendezvous/elastic/stand_in.h"

#include "tests/rendezvous/elastic/round_state_nodes.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Kind = RoundEnd::Kind;

class StandInTest : public RoundStateTest {
 protected:
  // Nodes 1 to 3 run, node 4 is a spare.
  void Run() {
    Make(3, 3, /*max_restarts=*/0, /*spares=*/1);
    for (const NodeId id : {1, 2, 3, 4}) Join(id);
    ASSERT_THAT(Told<StartRound>(), ElementsAre(1, 2, 3));
    Pass(kSpareReady);
    log_.clear();
  }
  void Answer(NodeId id, bool goes_on) { Take(state_->OnAnswer(id, attempt_, goes_on, now_)); }
  // The round has ended as it does without a stand-in, and the next one has the spare.
  void ExpectRegrouped() {
    EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
    EXPECT_THAT(Told<StartRound>(), IsEmpty());
    log_.clear();
    for (const NodeId id : {1, 3}) Join(id);
    EXPECT_THAT(Told<StartRound>(), ElementsAre(1, 3, 4));
    EXPECT_EQ(memberships_[4].node_rank, 1);
    EXPECT_EQ(memberships_[4].round, 1);
    EXPECT_FALSE(memberships_[4].stands_in);
  }
};

TEST_F(StandInTest, TakesThePlaceOfALostNodeInTheSameRound) {
  Run();
  Lose(2);
  EXPECT_THAT(Told<AskToGoOn>(), ElementsAre(1, 3));
  EXPECT_EQ(Last<AskToGoOn>().loss, "node 1 (b, pid 102) is gone: its connection was closed");
  Answer(1, true);
  EXPECT_THAT(Told<ReachStore>(), IsEmpty());
  Answer(3, true);
  EXPECT_THAT(Told<ReachStore>(), ElementsAre(4));
  EXPECT_THAT(Told<StartRound>(), ElementsAre(4));
  EXPECT_THAT(Told<ReportEnd>(), IsEmpty());
  const Membership& place = memberships_[4];
  EXPECT_TRUE(place.stands_in);
  EXPECT_EQ(place.round, 0);
  EXPECT_EQ(place.restart_count, 0);
  EXPECT_EQ(place.node_rank, 1);
  EXPECT_EQ(place.nnodes, 3);
  EXPECT_EQ(place.base_rank, memberships_[2].base_rank);
  EXPECT_EQ(place.master_addr, "10.0.0.1");
  EXPECT_EQ(place.master_port, 4000);
  for (const NodeId id : {1, 3, 4}) Leave(id);
  EXPECT_THAT(Told<AllLeft>(), ElementsAre(1, 3, 4));
}

TEST_F(StandInTest, IsANodeLikeTheOthers) {
  Run();
  Lose(2);
  Answer(1, true);
  Answer(3, true);
  Join(5);  // the next spare
  EXPECT_THAT(Told<ReportProgress>(), testing::Contains(5));
  log_.clear();
  Pass(seconds(100));
  Lose(4);
  EXPECT_THAT(Told<AskToGoOn>(), ElementsAre(1, 3));
  Answer(1, true);
  Answer(3, true);
  EXPECT_THAT(Told<StartRound>(), ElementsAre(5));
  End(5, Kind::kRegroup);
  EXPECT_THAT(Told<ReportEnd>(), ElementsAre(1, 3, 5));
  EXPECT_EQ(Last<ReportEnd>().end.node_rank, 1);
}

TEST_F(StandInTest, DoesNotComeIfWorkersCannotWait) {
  Run();
  Lose(2);
  Answer(1, true);
  Answer(3, false);
  ExpectRegrouped();
}

TEST_F(StandInTest, DoesNotComeIfANodeDoesNotAnswer) {
  Run();
  Lose(2);
  Answer(1, true);
  ASSERT_TRUE(state_->NextDeadline());
  Pass(seconds(15));
  ExpectRegrouped();
}

TEST_F(StandInTest, DoesNotComeIfTheSpareCannotReachTheStore) {
  Run();
  answering_ = false;
  Lose(2);
  Answer(1, true);
  Answer(3, true);
  EXPECT_THAT(Told<ReachStore>(), ElementsAre(4));
  Take(state_->OnUnreached(4, attempt_, "no route", now_));
  answering_ = true;
  ExpectRegrouped();
}

TEST_F(StandInTest, DoesNotComeBeforeAllHaveAnswered) {
  Run();
  Lose(2);
  Answer(1, true);
  Take(state_->OnReached(4, attempt_));
  EXPECT_THAT(Told<StartRound>(), IsEmpty());
  Answer(3, true);
  EXPECT_THAT(Told<StartRound>(), ElementsAre(4));
}

TEST_F(StandInTest, DoesNotComeIfTheSpareIsGone) {
  Run();
  Lose(2);
  Answer(1, true);
  Lose(4);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  EXPECT_THAT(Told<ReportEnd>(), ElementsAre(1, 3));
}

TEST_F(StandInTest, DoesNotComeIfAnotherNodeIsLost) {
  Run();
  Join(5);
  Lose(2);
  Answer(1, true);
  Lose(3);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  EXPECT_THAT(Told<ReportEnd>(), ElementsAre(1));
  Answer(1, true);  // late
  EXPECT_THAT(Told<ReachStore>(), IsEmpty());
}

TEST_F(StandInTest, DoesNotComeIfANodeWhoseWorkersHaveEndedIsLost) {
  Run();
  Lose(2);
  Answer(3, true);
  Leave(3);
  Lose(3);
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
  Answer(1, true);  // late
  EXPECT_THAT(Told<ReachStore>(), IsEmpty());
}

TEST_F(StandInTest, DoesNotReplaceTheNodeOfTheStore) {
  Run();
  Lose(1);
  EXPECT_THAT(Told<AskToGoOn>(), IsEmpty());
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
}

TEST_F(StandInTest, HasAsManyWorkers) {
  Make(2, 2, 0, 1);
  Join(1);
  Join(2);
  NodeInfo info;
  info.host = "large";
  info.local_world_size = 2;
  Take(state_->OnJoin(3, info, now_));
  Pass(kSpareReady);
  Lose(2);
  EXPECT_THAT(Told<AskToGoOn>(), IsEmpty());
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
}

TEST_F(StandInTest, HasWaitedForAWhile) {
  Make(2, 2, 0, 1);
  for (const NodeId id : {1, 2, 3}) Join(id);
  Pass(seconds(4));
  Lose(2);
  EXPECT_THAT(Told<AskToGoOn>(), IsEmpty());
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
}

TEST_F(StandInTest, DoesNotComeWhenWorkersHaveEndedWell) {
  Run();
  Leave(3);
  Lose(2);
  EXPECT_THAT(Told<AskToGoOn>(), IsEmpty());
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
}

TEST_F(StandInTest, StartsWhenTheLostNodesWorkersHaveEnded) {
  Run();
  Take(state_->OnGone(2, "it was silent", now_, now_ + seconds(5)));
  Answer(1, true);
  Answer(3, true);
  EXPECT_THAT(Told<ReachStore>(), ElementsAre(4));
  EXPECT_THAT(Told<StartRound>(), IsEmpty());
  EXPECT_EQ(state_->NextDeadline(), now_ + seconds(5));
  Pass(seconds(5));
  EXPECT_THAT(Told<StartRound>(), ElementsAre(4));
}

// Spares that crash again and again would keep the others waiting again and again.
TEST_F(StandInTest, WaitsAWhileAfterTwoShortRounds) {
  Run();
  Join(5);
  Join(6);
  Pass(kSpareReady);
  for (const NodeId lost : {2, 4}) {
    Lose(lost);
    Answer(1, true);
    Answer(3, true);
  }
  EXPECT_THAT(Told<StartRound>(), ElementsAre(4, 5));
  log_.clear();
  Lose(5);
  EXPECT_THAT(Told<AskToGoOn>(), IsEmpty());
  EXPECT_EQ(Last<ReportEnd>().end.kind, Kind::kRegroup);
}

}  // namespace
}  // namespace ddprun::rendezvous

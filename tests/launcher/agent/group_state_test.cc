#include "launcher/agent/group_state.h"

#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

class GroupStateTest : public testing::Test {
 protected:
  GroupAction Start() { return state_.On(GroupEvent::kStarted); }

  GroupState state_{kGroupTable};
};

TEST_F(GroupStateTest, FinishesWhenAllWorkersSucceed) {
  EXPECT_EQ(Start(), GroupAction::kNone);
  EXPECT_EQ(state_.On(GroupEvent::kAllGone), GroupAction::kFinish);
  EXPECT_EQ(state_.phase(), GroupPhase::kDone);
}

TEST_F(GroupStateTest, StopsTheRestOnTheFirstFailureAndOnlyOnce) {
  Start();
  EXPECT_EQ(state_.On(GroupEvent::kWorkerFailed), GroupAction::kStop);
  EXPECT_EQ(state_.On(GroupEvent::kWorkerFailed), GroupAction::kNone);
  EXPECT_EQ(state_.On(GroupEvent::kStopAsked), GroupAction::kNone);
  EXPECT_EQ(state_.phase(), GroupPhase::kStopping);
}

TEST_F(GroupStateTest, ReplacesALostWorkerOnlyWhileItRuns) {
  Start();
  EXPECT_EQ(state_.On(GroupEvent::kWorkerLost), GroupAction::kReplace);
  EXPECT_EQ(Start(), GroupAction::kNone);
  EXPECT_EQ(state_.On(GroupEvent::kWorkerFailed), GroupAction::kStop);
  EXPECT_EQ(state_.On(GroupEvent::kWorkerLost), GroupAction::kNone);
  EXPECT_EQ(Start(), GroupAction::kStop);
}

TEST_F(GroupStateTest, KillsAfterTheGracePeriodAndGivesUpAfterThat) {
  Start();
  EXPECT_EQ(state_.On(GroupEvent::kStopAsked), GroupAction::kStop);
  EXPECT_EQ(state_.On(GroupEvent::kGraceOver), GroupAction::kKill);
  EXPECT_EQ(state_.On(GroupEvent::kGraceOver), GroupAction::kGiveUp);
}

TEST_F(GroupStateTest, KillsAtOnceWhenSomeoneIsInAHurry) {
  Start();
  EXPECT_EQ(state_.On(GroupEvent::kKillAsked), GroupAction::kKill);
  EXPECT_EQ(state_.On(GroupEvent::kKillAsked), GroupAction::kNone);
  EXPECT_EQ(state_.On(GroupEvent::kAllGone), GroupAction::kFinish);
}

TEST_F(GroupStateTest, StopsWorkersThatAppearOnlyAfterItWasToldToStop) {
  EXPECT_EQ(state_.On(GroupEvent::kStopAsked), GroupAction::kStop);
  EXPECT_EQ(Start(), GroupAction::kStop);
  EXPECT_EQ(state_.On(GroupEvent::kKillAsked), GroupAction::kKill);
  EXPECT_EQ(Start(), GroupAction::kKill);
}

TEST_F(GroupStateTest, IgnoresATimerThatOutlivedItsReason) {
  Start();
  EXPECT_EQ(state_.On(GroupEvent::kGraceOver), GroupAction::kNone);
  EXPECT_EQ(state_.phase(), GroupPhase::kRunning);
}

TEST(GroupTable, StaysDoneWhateverHappens) {
  for (size_t event = 0; event < static_cast<size_t>(GroupEvent::kCount); ++event) {
    const auto step = kGroupTable.At(GroupPhase::kDone, static_cast<GroupEvent>(event));
    EXPECT_EQ(step.next, GroupPhase::kDone);
    EXPECT_EQ(step.action, GroupAction::kNone);
  }
}

TEST(GroupTable, NeverGoesBackToAnEarlierPhase) {
  for (size_t phase = 0; phase < static_cast<size_t>(GroupPhase::kCount); ++phase) {
    for (size_t event = 0; event < static_cast<size_t>(GroupEvent::kCount); ++event) {
      const auto step =
          kGroupTable.At(static_cast<GroupPhase>(phase), static_cast<GroupEvent>(event));
      EXPECT_GE(static_cast<size_t>(step.next), phase) << "event " << event;
    }
  }
}

TEST(GroupTable, FinishesFromEveryPhaseOnceAllAreGone) {
  for (size_t phase = 0; phase < static_cast<size_t>(GroupPhase::kDone); ++phase) {
    const auto step = kGroupTable.At(static_cast<GroupPhase>(phase), GroupEvent::kAllGone);
    EXPECT_EQ(step.next, GroupPhase::kDone);
    EXPECT_EQ(step.action, GroupAction::kFinish);
  }
}

}  // namespace
}  // namespace ddprun::launcher

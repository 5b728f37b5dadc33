#include "launcher/agent/agent_state.h"

#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

class AgentStateTest : public testing::Test {
 protected:
  void Start() { EXPECT_EQ(state_.On(AgentEvent::kReady), AgentAction::kStartWorkers); }

  AgentState state_{kAgentTable};
};

TEST_F(AgentStateTest, LeavesAndFinishesWhenAllGoesWell) {
  Start();
  EXPECT_EQ(state_.On(AgentEvent::kSucceeded), AgentAction::kLeave);
  EXPECT_EQ(state_.On(AgentEvent::kLeft), AgentAction::kFinish);
  EXPECT_EQ(state_.phase(), AgentPhase::kDone);
}

TEST_F(AgentStateTest, JoinsAgainOnlyWhenWorkersAreGoneAndTheOthersKnow) {
  Start();
  EXPECT_EQ(state_.On(AgentEvent::kRestartAsked), AgentAction::kStopWorkers);
  EXPECT_EQ(state_.phase(), AgentPhase::kRestarting);
  EXPECT_EQ(state_.On(AgentEvent::kSucceeded), AgentAction::kNone);
  EXPECT_EQ(state_.On(AgentEvent::kSettled), AgentAction::kJoin);
  EXPECT_EQ(state_.phase(), AgentPhase::kJoining);
  Start();
}

TEST_F(AgentStateTest, StartsItsWorkersAgainAlthoughTheyHadEndedWell) {
  Start();
  state_.On(AgentEvent::kSucceeded);
  EXPECT_EQ(state_.On(AgentEvent::kRestartAsked), AgentAction::kStopWorkers);
  EXPECT_EQ(state_.On(AgentEvent::kSettled), AgentAction::kJoin);
}

TEST_F(AgentStateTest, EndsInsteadOfRestartingWhenToldToStopMeanwhile) {
  Start();
  state_.On(AgentEvent::kRestartAsked);
  EXPECT_EQ(state_.On(AgentEvent::kEndAsked), AgentAction::kStopWorkers);
  EXPECT_EQ(state_.On(AgentEvent::kSettled), AgentAction::kFinish);
}

TEST_F(AgentStateTest, FollowsTheEndThatWasFirstOnAnotherNode) {
  Start();
  state_.On(AgentEvent::kEndAsked);
  state_.On(AgentEvent::kRestartAsked);
  EXPECT_EQ(state_.On(AgentEvent::kSettled), AgentAction::kJoin);
}

TEST(AgentTable, StaysDoneWhateverHappens) {
  for (size_t event = 0; event < static_cast<size_t>(AgentEvent::kCount); ++event) {
    const auto step = kAgentTable.At(AgentPhase::kDone, static_cast<AgentEvent>(event));
    EXPECT_EQ(step.next, AgentPhase::kDone);
    EXPECT_EQ(step.action, AgentAction::kNone);
  }
}

TEST(AgentTable, EndsFromEveryPhaseWhenAsked) {
  for (size_t phase = 0; phase < static_cast<size_t>(AgentPhase::kDone); ++phase) {
    for (const AgentEvent event : {AgentEvent::kEndAsked, AgentEvent::kKillAsked}) {
      EXPECT_EQ(kAgentTable.At(static_cast<AgentPhase>(phase), event).next, AgentPhase::kEnding);
    }
  }
}

TEST(AgentTable, KillsFromEveryPhaseWhenSomeoneIsInAHurry) {
  for (size_t phase = 0; phase < static_cast<size_t>(AgentPhase::kDone); ++phase) {
    EXPECT_EQ(kAgentTable.At(static_cast<AgentPhase>(phase), AgentEvent::kKillAsked).action,
              AgentAction::kKillWorkers);
  }
}

}  // namespace
}  // namespace ddprun::launcher

// Between which steps a run saves, and where it stops.
#include "trainer/loop/step_boundary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

StepBoundary BoundaryOf(double amount, IntervalUnit unit, int64_t total_steps = 12) {
  CheckpointConfig config;
  config.save_steps = {.amount = amount, .unit = unit};
  return {config, StepPlan{.steps_per_epoch = 4, .total_steps = total_steps}};
}

// After which of the steps from `first` on is saved.
std::vector<int64_t> Saves(StepBoundary boundary, int64_t first = 1) {
  std::vector<int64_t> saves;
  for (int64_t step = first; step <= 12; ++step) {
    if (boundary.Decide(step, Votes{}, false).save) saves.push_back(step);
  }
  return saves;
}

TEST(StepBoundary, SavesEverySoManyStepsOrEpochsAndAtTheEnd) {
  EXPECT_THAT(Saves(BoundaryOf(5, IntervalUnit::kSteps)), ElementsAre(5, 10, 12));
  EXPECT_THAT(Saves(BoundaryOf(1, IntervalUnit::kEpochs)), ElementsAre(4, 8, 12));
  EXPECT_THAT(Saves(BoundaryOf(0.75, IntervalUnit::kEpochs)), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(Saves(BoundaryOf(0.6, IntervalUnit::kEpochs)), ElementsAre(3, 5, 8, 10, 12));
  EXPECT_THAT(Saves(BoundaryOf(0.1, IntervalUnit::kEpochs), 10), ElementsAre(10, 11, 12));
  EXPECT_THAT(Saves(BoundaryOf(0, IntervalUnit::kSteps)), IsEmpty());
}

TEST(StepBoundary, SavesWhereAnotherRunDoesAlsoAfterAResume) {
  EXPECT_THAT(Saves(BoundaryOf(5, IntervalUnit::kSteps), 7), ElementsAre(10, 12));
  EXPECT_THAT(Saves(BoundaryOf(0.6, IntervalUnit::kEpochs), 4), ElementsAre(5, 8, 10, 12));
}

TEST(StepBoundary, SavesByTheClockOfOneRankOnAll) {
  StepBoundary boundary = BoundaryOf(60, IntervalUnit::kSeconds);
  EXPECT_FALSE(boundary.VotesAt(59, false, false).save);
  EXPECT_TRUE(boundary.VotesAt(60, false, false).save);
  EXPECT_FALSE(boundary.Decide(1, boundary.VotesAt(59, false, false), false).save);
  EXPECT_TRUE(boundary.Decide(2, Votes{.save = true}, false).save);
  boundary.NoteSave(60);
  EXPECT_FALSE(boundary.VotesAt(119, false, false).save);
  EXPECT_TRUE(boundary.VotesAt(120, false, false).save);
  EXPECT_FALSE(BoundaryOf(0, IntervalUnit::kSeconds).VotesAt(1e9, false, false).save);
}

TEST(StepBoundary, PutsASaveOffWhileAnotherIsUnderWayOrRanksDoNotMeet) {
  StepBoundary boundary = BoundaryOf(5, IntervalUnit::kSteps);
  EXPECT_FALSE(boundary.Decide(5, Votes{.busy = true}, false).save);
  EXPECT_FALSE(boundary.Decide(6, std::nullopt, false).save);
  EXPECT_TRUE(boundary.Decide(7, Votes{}, false).save);
  EXPECT_FALSE(boundary.Decide(8, Votes{}, false).save);
  // Nothing follows the last step that would wait.
  EXPECT_TRUE(boundary.Decide(12, Votes{.busy = true}, false).save);
}

TEST(StepBoundary, SavesWhatIsWantedAndWhereTheRunIsStopped) {
  StepBoundary boundary = BoundaryOf(0, IntervalUnit::kSteps);
  EXPECT_TRUE(boundary.Decide(1, Votes{}, true).save);
  EXPECT_FALSE(boundary.Decide(2, Votes{}, false).save);
  const BoundaryActions stop = boundary.Decide(3, Votes{.busy = true, .stop = true}, false);
  EXPECT_TRUE(stop.stop);
  EXPECT_TRUE(stop.save);
  EXPECT_FALSE(boundary.Decide(12, Votes{.stop = true}, false).stop);
}

TEST(StopGrace, LetsAStepEndThatLeavesTimeToSave) {
  const StopGrace grace{.whole = 100, .left = 60};
  EXPECT_FALSE(IsTooLate(35, 0, grace));
  EXPECT_TRUE(IsTooLate(36, 0, grace));
  EXPECT_FALSE(IsTooLate(20, 40, grace));
  EXPECT_TRUE(IsTooLate(20, 41, grace));
  EXPECT_TRUE(IsTooLate(0, 0, {.whole = 100, .left = -1}));
  EXPECT_FALSE(IsLongStep(25, grace));
  EXPECT_TRUE(IsLongStep(26, grace));
}

TEST(StopGrace, NeverEndsWhereItIsNotKnownOrNobodyWasTold) {
  EXPECT_FALSE(IsLongStep(1e9, {}));
  EXPECT_FALSE(IsTooLate(1e9, 1e9, {}));
  EXPECT_FALSE(IsTooLate(1e9, 1e9, {.whole = 100}));
}

}  // namespace
}  // namespace ddprun::trainer

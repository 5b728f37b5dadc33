#include "trainer/optim/schedule.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/golden/golden_file.h"

namespace ddprun::trainer {
namespace {

using Shape = LrSchedulerType;

TEST(LearningRateFactor, EqualsTransformersStepForStep) {
  const std::map<std::string, Shape> shapes = {{"constant", Shape::kConstant},
                                               {"linear", Shape::kLinear},
                                               {"cosine", Shape::kCosine},
                                               {"cosine_with_restarts", Shape::kCosineWithRestarts},
                                               {"polynomial", Shape::kPolynomial},
                                               {"inverse_sqrt", Shape::kInverseSqrt},
                                               {"warmup_stable_decay", Shape::kWarmupStableDecay}};
  const std::map<std::string, DecayType> decays = {{"cosine", DecayType::kCosine},
                                                   {"linear", DecayType::kLinear},
                                                   {"1-sqrt", DecayType::kOneMinusSqrt}};
  const nlohmann::json golden = golden::Read("schedules.json");
  for (const nlohmann::json& golden_case : golden.at("cases")) {
    const std::string shape = golden_case.at("shape");
    const ScheduleOptions options{
        .shape = shapes.at(shape),
        .warmup = golden_case.at("warmup"),
        .min_lr_ratio = golden_case.at("min_lr_ratio"),
        .cycles = golden_case.value("num_cycles", 1),
        .power = golden_case.value("power", 1.0),
        .decay = golden_case.value("decay_steps", 0.0),
        .decay_type = decays.at(golden_case.value("decay_type", "cosine")),
        .total_steps = golden_case.at("total_steps")};
    const auto factors = golden_case.at("factors").get<std::vector<double>>();
    for (size_t step = 0; step < factors.size(); ++step) {
      EXPECT_NEAR(LearningRateFactor(options, static_cast<int64_t>(step)), factors[step], 1e-12)
          << shape << " step " << step;
    }
  }
}

void ExpectRates(const ScheduleOptions& options, const std::vector<double>& rates) {
  for (size_t step = 0; step < rates.size(); ++step) {
    EXPECT_NEAR(LearningRateFactor(options, static_cast<int64_t>(step)), rates[step], 1e-12);
  }
}

TEST(LearningRateFactor, FallsInStepsWhereTorchDoes) {
  for (const nlohmann::json& one : golden::Read("lr_schedulers.json", "step")) {
    const ScheduleOptions options{.shape = Shape::kStep,
                                  .min_lr_ratio = 0,
                                  .step_size = one.at("step_size"),
                                  .gamma = one.at("gamma"),
                                  .total_steps = 40};
    ExpectRates(options, one.at("rates"));
  }
}

TEST(LearningRateFactor, EqualsTorchsMultiStepLr) {
  for (const nlohmann::json& one : golden::Read("lr_schedulers.json", "multi_step")) {
    const ScheduleOptions options{.shape = Shape::kMultiStep,
                                  .min_lr_ratio = 0,
                                  .milestones = one.at("milestones"),
                                  .gamma = one.at("gamma"),
                                  .total_steps = 40};
    ExpectRates(options, one.at("rates"));
  }
}

TEST(LearningRateFactor, EqualsTorchsOneCycleLr) {
  for (const nlohmann::json& one : golden::Read("lr_schedulers.json", "one_cycle")) {
    const ScheduleOptions options{.shape = Shape::kOneCycle,
                                  .rising_share = one.at("pct_start"),
                                  .div_factor = one.at("div_factor"),
                                  .final_div_factor = one.at("final_div_factor"),
                                  .total_steps = one.at("total_steps")};
    ExpectRates(options, one.at("rates"));
  }
}

TEST(LearningRateFactor, OfOneCycleIsANumberInTheShortestRuns) {
  for (int64_t steps = 1; steps < 5; ++steps) {
    // The peak of a run of four steps is its first one.
    const ScheduleOptions options{
        .shape = Shape::kOneCycle, .rising_share = 0.25, .total_steps = steps};
    for (int64_t step = 0; step < steps; ++step) {
      const double factor = LearningRateFactor(options, step);
      EXPECT_TRUE(factor > 0 && factor <= 1) << factor << " in step " << step << " of " << steps;
    }
  }
}

TEST(LearningRateFactor, OfASearchGrowsByOneFactorFromEndToEnd) {
  const ScheduleOptions options{.warmup = 2, .range = {1e-3, 10}, .total_steps = 5};
  ExpectRates(options, {1e-3, 1e-2, 1e-1, 1, 10});
}

TEST(LearningRateFactor, TakesMilestonesAsSharesOfTheRun) {
  const ScheduleOptions options{
      .shape = Shape::kMultiStep, .milestones = {0.5, 0.75}, .gamma = 0.1, .total_steps = 40};
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 19), 1.0);
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 20), 0.1);
  EXPECT_NEAR(LearningRateFactor(options, 30), 0.01, 1e-12);
}

TEST(LearningRateFactor, EndsAtTheMinimumAndStaysThere) {
  for (const Shape shape : {Shape::kLinear, Shape::kCosine}) {
    const ScheduleOptions options{
        .shape = shape, .warmup = 2, .min_lr_ratio = 0.25, .total_steps = 10};
    EXPECT_DOUBLE_EQ(LearningRateFactor(options, 2), 1.0);
    EXPECT_DOUBLE_EQ(LearningRateFactor(options, 10), 0.25);
    EXPECT_DOUBLE_EQ(LearningRateFactor(options, 15), 0.25);
  }
}

TEST(LearningRateFactor, StaysAtThePeakWithoutWarmupWhenConstant) {
  const ScheduleOptions options{.shape = Shape::kConstant, .total_steps = 3};
  EXPECT_EQ(LearningRateFactor(options, 0), 1.0);
  EXPECT_EQ(LearningRateFactor(options, 99), 1.0);
}

TEST(LearningRateFactor, SurvivesAWarmupAsLongAsTheRun) {
  const ScheduleOptions options{.warmup = 5, .min_lr_ratio = 0.5, .total_steps = 5};
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 4), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 5), 1.0);
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 6), 0.5);
}

// get_lr of nanoGPT's train.py: learning_rate * (it + 1) / (warmup_iters + 1) while it <
// warmup_iters.
TEST(LearningRateFactor, RisesFromAboveZeroAsInNanoGpt) {
  const ScheduleOptions options{
      .warmup = 4, .warmup_from_zero = false, .min_lr_ratio = 0.1, .total_steps = 12};
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_DOUBLE_EQ(LearningRateFactor(options, step), static_cast<double>(step + 1) / 5);
  }
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 4), 1.0);
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 8), 0.55);
}

TEST(LearningRateFactor, IsStableForNoStepIfTheDecayIsAsLongAsTheRun) {
  const ScheduleOptions options{.shape = Shape::kWarmupStableDecay,
                                .warmup = 4,
                                .decay = 12,
                                .decay_type = DecayType::kLinear,
                                .total_steps = 12};
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 3), 0.75);
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 4), 1.0);
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 8), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateFactor(options, 12), 0.0);
}

TEST(WarmupSteps, ReadsASmallNumberAsAShareRoundedUp) {
  EXPECT_EQ(WarmupSteps({.warmup = 0.05, .total_steps = 30}), 2);
  EXPECT_EQ(WarmupSteps({.warmup = 7, .total_steps = 30}), 7);
  EXPECT_EQ(WarmupSteps({.warmup = 0, .total_steps = 30}), 0);
}

}  // namespace
}  // namespace ddprun::trainer

#include "trainer/job/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/job/options_of.h"

namespace ddprun::trainer {
namespace {

struct Case {
  int64_t samples = 40;
  int64_t ranks = 2;
  int64_t batch = 8;
  int64_t accumulation = 1;
  bool by_step = false;
  bool drop_last = false;
};

Config ConfigOf(const Case& c) {
  Config config;
  config.run.max_epochs = 3;
  config.training.per_device_train_batch_size = c.batch;
  config.training.gradient_accumulation_steps = c.accumulation;
  config.data.sample_order = c.by_step ? SampleOrder::kWorldSizeIndependent : SampleOrder::kTorch;
  config.data.dataloader_drop_last = c.drop_last;
  return config;
}

TEST(PlanSteps, CountsBatchesAndStepsOfTheRun) {
  const StepPlan plan =
      PlanSteps(ConfigOf({.samples = 45, .batch = 4, .accumulation = 4}), 45, 2).value();
  EXPECT_EQ(plan.samples_per_rank, 23);
  EXPECT_EQ(plan.batches_per_epoch, 6);
  EXPECT_EQ(plan.steps_per_epoch, 2);
  EXPECT_EQ(plan.total_steps, 6);
  EXPECT_EQ(plan.step_samples, 32);
}

TEST(PlanSteps, EndsWhereTheConfigSays) {
  Config config = ConfigOf({});
  config.run.max_epochs = 0.1;
  EXPECT_EQ(PlanSteps(config, 40, 2).value().total_steps, 1);
  config.run.max_epochs = 1.5;
  EXPECT_EQ(PlanSteps(config, 40, 2).value().total_steps, 5);  // of 3 an epoch
  config.run.max_steps = 7;
  EXPECT_EQ(PlanSteps(config, 40, 2).value().total_steps, 7);
}

// For any keys, sampler and loader do what the plan says; a plan without a step is refused.
TEST(PlanSteps, AgreesWithSamplerAndLoaderOrRefuses) {
  int refused = 0;
  for (const int64_t samples : {1, 2, 7, 16, 40, 63, 64, 65}) {
    for (const int64_t ranks : {1, 2, 3}) {
      for (const int64_t accumulation : {1, 4}) {
        for (const bool by_step : {false, true}) {
          for (const bool drop_last : {false, true}) {
            const Case c{samples, ranks, 8, accumulation, by_step, drop_last};
            const Config config = ConfigOf(c);
            const auto plan = PlanSteps(config, samples, ranks);
            const DistributedSampler sampler(ShareOptions(config, samples, {.count = ranks}));
            const int64_t batches = CountBatches(static_cast<int64_t>(sampler.Indices().size()),
                                                 TrainLoaderOptions(config, 0));
            if (batches == 0) {
              ++refused;
              ASSERT_FALSE(plan.has_value());
              EXPECT_EQ(plan.error().title, "TOO FEW SAMPLES");
              continue;
            }
            ASSERT_TRUE(plan.has_value()) << plan.error().what;
            EXPECT_EQ(plan->batches_per_epoch, batches);
            EXPECT_GT(plan->steps_per_epoch, 0);
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 10);
}

TEST(PlanSteps, LeavesOutWhatCannotBeSharedOutWhereAsked) {
  Config config = ConfigOf({.batch = 1});
  EXPECT_EQ(PlanSteps(config, 7, 2).value().samples_per_rank, 4);
  // Ranks that would have none get the first ones again.
  EXPECT_EQ(PlanSteps(config, 3, 4).value().samples_per_rank, 1);
  config.data.sampler_drop_last = true;
  EXPECT_EQ(PlanSteps(config, 7, 2).value().samples_per_rank, 3);
  EXPECT_THAT(PlanSteps(config, 3, 4).error().what,
              testing::HasSubstr("data.sampler_drop_last leaves"));
  EXPECT_FALSE(PlanSteps(config, 0, 4).has_value());
}

TEST(PlanSteps, SaysWhyAnEpochWouldHaveNoStep) {
  const Case all_at_once{.accumulation = 4, .by_step = true, .drop_last = true};
  const auto plan = PlanSteps(ConfigOf(all_at_once), 40, 2);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().what,
            "The training data has 40 samples, less than one step of all ranks takes (64), and "
            "with data.sample_order\n\"world_size_independent\" data.dataloader_drop_last drops "
            "it.");
}

int64_t PositionOf(const Case& c, int64_t taken) {
  const StepPlan plan = *PlanSteps(ConfigOf(c), c.samples, c.ranks);
  return PositionFor(plan, {.samples = taken, .dataset_size = c.samples}).samples;
}

TEST(PositionFor, IsTheSameForTheStepsOfThePlan) {
  for (const Case& c : {Case{.samples = 41}, Case{.samples = 41, .batch = 3, .accumulation = 2},
                        Case{.samples = 41, .batch = 4, .by_step = true},
                        Case{.samples = 41, .ranks = 3, .batch = 5, .drop_last = true}}) {
    const StepPlan plan = *PlanSteps(ConfigOf(c), c.samples, c.ranks);
    const int64_t end = plan.samples_per_rank * c.ranks;
    for (int64_t taken = 0; taken < c.samples; taken += c.batch * c.ranks) {
      EXPECT_EQ(PositionOf(c, taken), taken);
    }
    EXPECT_EQ(PositionOf(c, end), end);
  }
}

TEST(PositionFor, OfOtherRanksIsSharedByAll) {
  EXPECT_EQ(PositionOf({.samples = 41, .ranks = 4}, 18), 16);
  EXPECT_EQ(PositionOf({.samples = 41, .ranks = 4}, 40), 40);
  // All samples were taken, with more padding or less.
  EXPECT_EQ(PositionOf({.samples = 41, .ranks = 2}, 48), 42);
  EXPECT_EQ(PositionOf({.samples = 41, .ranks = 4}, 42), 44);
  EXPECT_EQ(PositionOf({.samples = 41, .ranks = 4}, 41), 44);
}

}  // namespace
}  // namespace ddprun::trainer

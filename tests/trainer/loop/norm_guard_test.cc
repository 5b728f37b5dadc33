#include "trainer/worker/norm_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/trainer/load_state.h"
#include "tests/trainer/loop/small_jobs.h"
#include "tests/trainer/report/noted_lines.h"
#include "trainer/job/plan_job.h"

namespace ddprun::trainer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NormHistory, HasTheMedianOfTheLastHundredSteps) {
  NormHistory history;
  for (int64_t i = 1; i < NormHistory::kLeast; ++i) history.Add(static_cast<double>(i));
  EXPECT_FALSE(history.Median());
  history.Add(1000);
  EXPECT_EQ(history.Median(), 11);  // of 1, 2, ... 19 and 1000
  for (int i = 0; i < 100; ++i) history.Add(i % 2 == 0 ? 3 : 5);
  EXPECT_EQ(history.Median(), 5);
}

TEST(NormHistory, IsTheSameAfterItWasSaved) {
  NormHistory history;
  for (int i = 0; i < 130; ++i) history.Add(i);
  const StateDict state = CopyOf(SaveState(NamesOf(history)));
  NormHistory copy;
  LoadState(state, NamesOf(copy));
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(copy.Median(), history.Median());
    copy.Add(1000);
    history.Add(1000);
  }
}

// Multiplies the gradients of some steps, before the guard sees them.
class Jumps final : public StepPart {
 public:
  void AfterGradients(const Step& step) override {
    if (step.number == 10) step.strategy.ScaleGradients(4);
    if (step.number == 30) step.strategy.ScaleGradients(1000);
    if (step.number == 35) step.strategy.ScaleGradients(kInfinity);
  }
};

class Norms final : public StepPart {
 public:
  void AfterGradients(const Step& step) override {
    norms.push_back(static_cast<double>(step.strategy.GradientNorm()));
  }
  std::vector<double> norms;
};

TEST(NormGuard, LimitsAJumpSaysSoAndHidesNoInfinity) {
  at::set_num_threads(1);
  Job job = MakeJob(4, 1);
  job.config.scheduler.lr_scheduler_type = LrSchedulerType::kConstant;
  job.config.run.max_steps = 36;
  job.config.training.max_grad_norm = 0;
  job.config.training.stop_on_bad_loss = false;
  Observers observers;
  const auto& lines =
      dynamic_cast<NotedLines&>(observers.Add(std::make_unique<NotedLines>())).lines;
  Trainer trainer(job, PlanFor(job, 1), {}, nullptr, Log::ToStderr({}));
  trainer.Build();
  Jumps jumps;
  Norms before;
  NormGuard guard(3);
  Norms after;
  for (StepPart* part : std::vector<StepPart*>{&jumps, &before, &guard, &after}) {
    trainer.AddPart(*part);
  }
  trainer.Fit(&observers);
  NormHistory expected;
  for (size_t i = 0; i < after.norms.size(); ++i) {
    const std::optional<double> median = expected.Median();
    if (i == 29) {  // step 30; step 10 has too few before it
      ASSERT_TRUE(median);
      EXPECT_GT(before.norms[i], 100 * *median);
      EXPECT_NEAR(after.norms[i], 3 * *median, 1e-5 * *median);
    } else if (i == 34) {
      EXPECT_FALSE(std::isfinite(after.norms[i]));
    } else if (i < 34) {
      EXPECT_EQ(after.norms[i], before.norms[i]) << i;
    }
    if (std::isfinite(after.norms[i])) expected.Add(after.norms[i]);
  }
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("step 30: the gradients' norm"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("scaled down to 3.00 times"), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace ddprun::trainer

// Where the loop calls a part that goes along with every step.
#include "trainer/loop/step_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/trainer/loop/small_jobs.h"
#include "trainer/job/plan_job.h"

namespace ddprun::trainer {
namespace {

// Notes its calls, and which of them found other weights than the call before.
class CallList final : public StepPart {
 public:
  explicit CallList(Trainer& trainer) : model_(trainer.model()) { trainer.AddPart(*this); }

  void BeforeStep(const Step& step) override { Note("step " + std::to_string(step.number)); }
  void BeforeMicroBatch(const Step& /*step*/, size_t micro_batch) override {
    Note("batch " + std::to_string(micro_batch));
  }
  void AfterGradients(const Step& step) override {
    double sum = 0;
    for (const at::Tensor& gradient : step.strategy.Gradients()) {
      if (gradient.defined()) sum += gradient.abs().sum().item<double>();
    }
    if (sum == 0) return Note("no gradients");
    Note(std::isfinite(sum) ? "gradients" : "infinite gradients");
  }
  void BeforeUpdate(const Step& /*step*/) override { Note("update"); }
  void AfterUpdate(const Step& /*step*/) override { Note("updated"); }

  std::vector<std::string> calls;

 private:
  void Note(const std::string& call) {
    std::vector<at::Tensor> now;
    bool changed = false;
    for (const at::Tensor& parameter : model_.parameters()) {
      now.push_back(parameter.detach().clone());
      changed = changed || (!before_.empty() && !now.back().equal(before_[now.size() - 1]));
    }
    before_ = std::move(now);
    calls.push_back(changed ? call + ": other weights" : call);
  }

  const Model& model_;
  std::vector<at::Tensor> before_;
};

std::vector<std::string> CallsOf(Job job) {
  at::set_num_threads(1);
  job.config.scheduler.lr_scheduler_type = LrSchedulerType::kConstant;
  job.config.run.max_steps = 2;
  Trainer trainer(job, PlanFor(job, 1), {}, nullptr, Log::ToStderr({}));
  trainer.Build();
  CallList list(trainer);
  trainer.Fit(nullptr);
  return list.calls;
}

TEST(StepPart, IsCalledAtEachPlaceOfAStep) {
  const std::vector<std::string> expected = {
      "step 1", "batch 0", "batch 1", "gradients", "update", "updated: other weights",
      "step 2", "batch 0", "batch 1", "gradients", "update", "updated: other weights"};
  EXPECT_EQ(CallsOf(MakeJob(2, 2)), expected);
}

TEST(StepPart, IsCalledInAStepWithoutUpdate) {
  Job job = MakeJob(2, 1);
  job.config.training.precision = Precision::kFp16;
  job.config.training.init_loss_scale = std::ldexp(1.0, 40);
  const std::vector<std::string> expected = {
      "step 1", "batch 0", "infinite gradients", "update", "updated",
      "step 2", "batch 0", "infinite gradients", "update", "updated"};
  EXPECT_EQ(CallsOf(std::move(job)), expected);
}

// The loss of the last stage is part of its forward pass.
TEST(StepPart, IsCalledOnceForAMicroBatchAndAStage) {
  Job job = MakeJob(4, 1);
  job.config.strategy.type = StrategyType::kPipeline;
  job.config.strategy.devices = {"cpu", "cpu"};
  job.config.strategy.pipeline_micro_batches = 2;
  const std::vector<std::string> calls = CallsOf(std::move(job));
  EXPECT_EQ(std::ranges::count(calls, "batch 0"), 2 * 2);
  EXPECT_EQ(std::ranges::count(calls, "batch 1"), 2 * 2);
}

}  // namespace
}  // namespace ddprun::trainer

// A strategy of a test's own, as a row beside those of the trainer.
#include <gtest/gtest.h>

#include <utility>

#include "tests/trainer/compute/largest_difference.h"
#include "tests/trainer/loop/small_jobs.h"
#include "trainer/strategies/build_model.h"
#include "trainer/strategies/kinds.h"
#include "trainer/strategies/single.h"
#include "trainer/strategies/strategy_options.h"

namespace ddprun::trainer {
namespace {

// Averages each gradient by an all-reduce of its own, after backward.
class OneByOne final : public Strategy {
 public:
  OneByOne(std::unique_ptr<Strategy> own, const Mesh& mesh) : own_(std::move(own)), mesh_(mesh) {}

  void ForwardBackward(const StepInputs& inputs) override {
    own_->ForwardBackward(inputs);
    for (const at::Tensor& gradient : own_->Gradients()) {
      std::vector<at::Tensor> tensors = {gradient};
      mesh_.data.group->allreduce(tensors)->wait();
      gradient.div_(mesh_.data.size);
    }
  }
  std::vector<at::Tensor> Gradients() override { return own_->Gradients(); }
  DeviceScalar GradientNorm() override { return own_->GradientNorm(); }
  DeviceScalar ClipGradients(double max_norm) override { return own_->ClipGradients(max_norm); }
  void Step() override { own_->Step(); }
  void SwapAverages() override { own_->SwapAverages(); }
  void NameState(StateVisitor& visitor) override { own_->NameState(visitor); }

 private:
  const std::unique_ptr<Strategy> own_;
  const Mesh mesh_;
};

BuiltStrategy BuildOneByOne(const BuildInputs& in, std::shared_ptr<Model> whole) {
  HandOutModel(whole.get(), *whole, in.mesh);
  auto optimizer = OptimizerOf(in.job.config.optimizer, *whole);
  return {whole, std::make_unique<OneByOne>(MakeSingle(whole, std::move(optimizer)), in.mesh)};
}

constexpr StrategyKind kToys[] = {
    {[](const ParallelDims& dims) { return dims.replicas == Replicas::kAverage; }, &BuildOneByOne},
};

TEST(StrategyKinds, TheLoopTrainsWithAStrategyThatOnlyARowNames) {
  const Job job = MakeJob(/*batch_size=*/2, /*accumulation=*/2);
  WithGroup(2, [&](const auto& group, int) {
    const Mesh mesh(group);
    const Weights expected = Train(job, mesh);
    const Weights found = Train(job, mesh, nullptr, kToys);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_LT(LargestDifference(found.at(name), tensor), 1e-6) << name;
    }
  });
}

TEST(StrategyKinds, TheFirstRowThatFitsIsTaken) {
  size_t fitting = 0;
  for (const StrategyKind& kind : StrategyKinds()) {
    fitting += kind.fits({.replicas = Replicas::kShardOptimizer, .in_stages = true}) ? 1 : 0;
  }
  EXPECT_EQ(fitting, 2);  // the pipeline shards the optimizer itself
}

}  // namespace
}  // namespace ddprun::trainer

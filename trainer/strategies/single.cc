#include "trainer/strategies/single.h"

#include <utility>

#include "trainer/compute/norm.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/strategies/strategy_parts.h"

namespace ddprun::trainer {

namespace {

class Single : public Strategy {
 public:
  Single(std::shared_ptr<Model> model, std::unique_ptr<Optimizer> optimizer, const Mesh& mesh)
      : mesh_(mesh),
        model_(std::move(model)),
        parameters_(*model_, mesh),
        optimizer_(std::move(optimizer)) {}

  void ForwardBackward(const StepInputs& inputs) override {
    learning_rate_ = inputs.learning_rate;
    for (const at::Tensor& parameter : parameters_.all()) parameter.mutable_grad().reset();
    for (size_t i = 0; i < inputs.micro_batches.size(); ++i) RunMicroBatch(inputs, i, *model_);
  }
  std::vector<at::Tensor> Gradients() override {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& one : parameters_.all()) gradients.push_back(one.grad());
    return gradients;
  }
  DeviceScalar GradientNorm() override {
    return NormOverModel(SquaresOf(parameters_.SelectCounted(Gradients())), mesh_);
  }
  DeviceScalar ClipGradients(double max_norm) override {
    const DeviceScalar norm = GradientNorm();
    ClipTo(max_norm, norm, GradientsOf(parameters_.all()));
    return norm;
  }
  void Step() override { optimizer_->Step(learning_rate_); }
  void SwapAverages() override { optimizer_->SwapAverages(); }
  void NameState(StateVisitor& visitor) override {
    NameModel(*model_, {}, {}, mesh_, visitor);
    BeginSection("optimizer.", {}, mesh_, visitor);
    optimizer_->NameState(visitor);
  }

 private:
  const Mesh mesh_;
  const std::shared_ptr<Model> model_;
  const TrainedParameters parameters_;
  const std::unique_ptr<Optimizer> optimizer_;
  DeviceScalar learning_rate_;  // of the current step
};

}  // namespace

std::unique_ptr<Strategy> MakeSingle(std::shared_ptr<Model> model,
                                     std::unique_ptr<Optimizer> optimizer,
                                     const Mesh& mesh) {
  return std::make_unique<Single>(std::move(model), std::move(optimizer), mesh);
}

}  // namespace ddprun::trainer

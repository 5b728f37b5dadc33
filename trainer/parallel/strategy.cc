#include "trainer/parallel/strategy.h"

#include "trainer/parallel/verify_model.h"

namespace ddprun::trainer {

namespace {

class Single : public Strategy {
 public:
  explicit Single(std::vector<NamedParameter> parameters) : parameters_(std::move(parameters)) {}

  void BeginStep() override {
    for (const NamedParameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  }
  void PrepareBackward(bool /*last*/) override {}
  std::vector<at::Tensor> Gradients() const override {
    std::vector<at::Tensor> gradients;
    for (const NamedParameter& parameter : parameters_) {
      if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
    }
    return gradients;
  }
  double exposed_seconds() const override { return 0; }

 private:
  const std::vector<NamedParameter> parameters_;
};

class DistributedDataParallel : public Strategy {
 public:
  DistributedDataParallel(std::vector<NamedParameter> parameters,
                          c10::intrusive_ptr<c10d::Backend> group,
                          const Reducer::Options& options)
      : reducer_(std::move(parameters), std::move(group), options) {}

  void BeginStep() override { reducer_.BeginStep(); }
  void PrepareBackward(bool last) override { reducer_.PrepareBackward(last); }
  std::vector<at::Tensor> Gradients() const override { return reducer_.FlatGradients(); }
  double exposed_seconds() const override { return reducer_.exposed_seconds(); }

 private:
  Reducer reducer_;
};

}  // namespace

std::unique_ptr<Strategy> MakeSingle(std::vector<NamedParameter> parameters) {
  return std::make_unique<Single>(std::move(parameters));
}

std::unique_ptr<Strategy> MakeDistributedDataParallel(std::vector<NamedParameter> parameters,
                                                      const std::vector<NamedParameter>& buffers,
                                                      c10::intrusive_ptr<c10d::Backend> group,
                                                      const Reducer::Options& options) {
  std::vector<NamedParameter> all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  VerifySameModel(all, *group);
  BroadcastFrom(0, all, *group);
  return std::make_unique<DistributedDataParallel>(std::move(parameters), std::move(group),
                                                   options);
}

}  // namespace ddprun::trainer

#include "trainer/parallel/strategy.h"

#include "trainer/parallel/verify_model.h"

namespace ddprun::trainer {

namespace {

std::vector<at::Tensor> TensorsOf(const std::vector<NamedParameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const NamedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

class Single : public Strategy {
 public:
  explicit Single(const std::vector<NamedParameter>& parameters)
      : parameters_(TensorsOf(parameters)) {}

  void BeginStep() override {
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  void PrepareBackward(bool /*last*/) override {}
  std::vector<at::Tensor> Gradients() override {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
    return gradients;
  }
  void UpdateReady(const Reducer::Ready& update) override { update(parameters_); }
  void Finish() override {}
  const BucketTuning* tuning() const override { return nullptr; }
  void BeforeEvaluation() override {}
  double exposed_seconds() const override { return 0; }

 private:
  const std::vector<at::Tensor> parameters_;
};

class DistributedDataParallel : public Strategy {
 public:
  // `buffers`: those that are kept equal.
  DistributedDataParallel(std::vector<NamedParameter> parameters,
                          std::vector<NamedParameter> buffers,
                          const c10::intrusive_ptr<c10d::Backend>& group,
                          const DataParallelOptions& options)
      : by_bucket_(options.reducer.WaitsInStep()),
        in_backward_(options.reducer.update_in_backward != nullptr),
        parameters_(TensorsOf(parameters)),
        buffers_(std::move(buffers)),
        group_(group),
        reducer_(std::move(parameters), group, options.reducer) {
    if (options.averaging) averager_.emplace(parameters_, group, *options.averaging);
  }

  void BeginStep() override {
    reducer_.BeginStep();
    SyncBuffers();
  }
  void PrepareBackward(bool last) override { reducer_.PrepareBackward(last); }
  std::vector<at::Tensor> Gradients() override {
    reducer_.WaitForBuckets();
    return reducer_.FlatGradients();
  }
  void UpdateReady(const Reducer::Ready& update) override {
    // Fewer calls of the optimizer's kernels where there is nothing to wait for in between.
    if (by_bucket_) {
      reducer_.WaitForBuckets(update);
    } else if (!in_backward_) {
      update(parameters_);
    }
    if (averager_) averager_->AfterStep();
  }
  void Finish() override {
    if (averager_) averager_->Average();
  }
  const BucketTuning* tuning() const override { return reducer_.tuning(); }
  void BeforeEvaluation() override { SyncBuffers(); }
  double exposed_seconds() const override { return reducer_.exposed_seconds(); }

 private:
  void SyncBuffers() {
    if (!buffers_.empty()) BroadcastFrom(0, buffers_, *group_);
  }

  const bool by_bucket_;
  const bool in_backward_;
  const std::vector<at::Tensor> parameters_;
  const std::vector<NamedParameter> buffers_;
  const c10::intrusive_ptr<c10d::Backend> group_;
  Reducer reducer_;
  std::optional<PeriodicModelAverager> averager_;
};

}  // namespace

std::unique_ptr<Strategy> MakeSingle(std::vector<NamedParameter> parameters) {
  return std::make_unique<Single>(parameters);
}

std::unique_ptr<Strategy> MakeDistributedDataParallel(std::vector<NamedParameter> parameters,
                                                      std::vector<NamedParameter> buffers,
                                                      c10::intrusive_ptr<c10d::Backend> group,
                                                      const DataParallelOptions& options) {
  std::vector<NamedParameter> all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  VerifySameModel(all, *group);
  BroadcastFrom(0, all, *group);
  if (!options.broadcast_buffers) buffers.clear();
  std::erase_if(parameters, [](const auto& one) { return !one.tensor.requires_grad(); });
  return std::make_unique<DistributedDataParallel>(std::move(parameters), std::move(buffers), group,
                                                   options);
}

}  // namespace ddprun::trainer

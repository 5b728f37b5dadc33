#include "trainer/parallel/strategy.h"

#include <utility>

#include "trainer/compute/norm.h"
#include "trainer/optim/clip.h"
#include "trainer/parallel/verify_model.h"

namespace ddprun::trainer {

namespace {

std::vector<at::Tensor> TensorsOf(const std::vector<NamedParameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const NamedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

bool IsFrozen(const NamedParameter& parameter) {
  return !parameter.tensor.requires_grad();
}

class Single : public Strategy {
 public:
  explicit Single(const std::vector<NamedParameter>& parameters)
      : parameters_(TensorsOf(parameters)) {}

  void BeginStep() override {
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  void PrepareBackward(bool /*last*/) override {}
  double GradientNorm() override { return GlobalNorm(GradientsOf(parameters_)); }
  double ClipGradients(double max_norm) override {
    return ClipGlobalNorm(GradientsOf(parameters_), max_norm);
  }
  void UpdateReady(const Reducer::Ready& update) override { update(parameters_); }
  void Finish() override {}
  void BeforeEvaluation() override {}
  double exposed_seconds() const override { return 0; }

 private:
  const std::vector<at::Tensor> parameters_;
};

BucketSizesReport ReportOf(const BucketTuning& tuning, int64_t step) {
  constexpr double kMiB = 1 << 20;
  BucketSizesReport report{.step = step, .chosen = tuning.chosen};
  for (const BucketTrial& trial : tuning.trials) {
    report.trials.push_back(
        {.bucket_cap_mb = static_cast<double>(trial.limits.cap_bytes) / kMiB,
         .first_bucket_mb = static_cast<double>(trial.limits.first_bytes) / kMiB,
         .buckets = trial.buckets,
         .seconds = trial.seconds});
  }
  return report;
}

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
    averages_gradients_ = !averager_ || averager_->warming_up();
    // Between two averages ranks do not wait for each other; rank 0's buffers stay what they are.
    if (averages_gradients_ || averager_->averaged()) SyncBuffers();
  }
  void PrepareBackward(bool last) override { reducer_.PrepareBackward(last); }
  double GradientNorm() override {
    reducer_.WaitForBuckets();
    return GlobalNorm(reducer_.Gradients());
  }
  double ClipGradients(double max_norm) override {
    const double norm = GradientNorm();
    ClipTo(max_norm, norm, reducer_.FlatGradients());  // fewer tensors than parameters
    return norm;
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
  bool averages_gradients() const override { return averages_gradients_; }
  bool ranks_met() const override { return averages_gradients_ || averager_->averaged(); }
  void Report(RunReporter& reporter, int64_t step) override {
    const BucketTuning* tuning = reducer_.tuning();
    if (tuning == nullptr || std::exchange(tuning_reported_, true)) return;
    reporter.OnBucketSizes(ReportOf(*tuning, step), ReportTime::Now());
  }
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
  bool averages_gradients_ = true;  // in this step
  bool tuning_reported_ = false;
};

}  // namespace

std::unique_ptr<Strategy> MakeSingle(std::vector<NamedParameter> parameters) {
  std::erase_if(parameters, IsFrozen);
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
  std::erase_if(parameters, IsFrozen);
  return std::make_unique<DistributedDataParallel>(std::move(parameters), std::move(buffers), group,
                                                   options);
}

}  // namespace ddprun::trainer

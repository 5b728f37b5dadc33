#include "trainer/parallel/strategy.h"

#include <utility>

#include "base/failure.h"
#include "trainer/compute/norm.h"
#include "trainer/optim/optimizer.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

namespace {

std::vector<at::Tensor> TrainedParameters(const Model& model) {
  std::vector<at::Tensor> tensors = model.parameters();
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.requires_grad(); });
  return tensors;
}

void NameModel(const Model& model, RankPart parameters, RankPart buffers, StateVisitor& visitor) {
  visitor.Section("model.", parameters);
  for (const auto& item : model.named_parameters()) visitor.Tensor(item.key(), item.value());
  visitor.Section("model.", buffers);
  for (const auto& item : model.named_buffers()) visitor.Tensor(item.key(), item.value());
}

class Single : public Strategy {
 public:
  Single(std::shared_ptr<Model> model, std::unique_ptr<Optimizer> optimizer)
      : model_(std::move(model)),
        parameters_(TrainedParameters(*model_)),
        optimizer_(std::move(optimizer)) {}

  void ForwardBackward(const StepInputs& inputs) override {
    learning_rate_ = inputs.learning_rate;
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    for (size_t i = 0; i < inputs.micro_batches.size(); ++i) RunMicroBatch(inputs, i, *model_);
  }
  double GradientNorm() override { return GlobalNorm(GradientsOf(parameters_)); }
  double ClipGradients(double max_norm) override {
    return ClipGlobalNorm(GradientsOf(parameters_), max_norm);
  }
  void Step() override { optimizer_->Step(learning_rate_); }
  void NameState(StateVisitor& visitor) override {
    NameModel(*model_, {}, {}, visitor);
    visitor.Section("optimizer.");
    optimizer_->NameState(visitor);
  }

 private:
  const std::shared_ptr<Model> model_;
  const std::vector<at::Tensor> parameters_;
  const std::unique_ptr<Optimizer> optimizer_;
  double learning_rate_ = 0;  // of the step under way
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
  DistributedDataParallel(std::shared_ptr<Model> model,
                          std::unique_ptr<Optimizer> optimizer,
                          const Mesh& mesh,
                          DataParallelOptions options)
      : by_bucket_(options.sync.reducer.WaitsInStep()),
        in_backward_(options.update_in_backward),
        model_(std::move(model)),
        optimizer_(std::move(optimizer)),
        update_([this](auto parameters) { optimizer_->Step(learning_rate_, parameters); }),
        equal_buffers_(options.sync.broadcast_buffers),
        own_{.rank = mesh.data.rank, .size = mesh.data.size} {
    if (in_backward_) options.sync.reducer.update_in_backward = update_;
    sync_.emplace(*model_, mesh, options.sync);
    if (options.averaging) {
      averager_.emplace(TrainedParameters(*model_), mesh.data.group, *options.averaging);
    }
  }

  void ForwardBackward(const StepInputs& inputs) override {
    learning_rate_ = inputs.learning_rate;
    averaged_gradients_ = averages_gradients();
    reducer().BeginStep();
    // Between two averages ranks do not wait for each other; rank 0's buffers stay what they are.
    if (averaged_gradients_ || averager_->averaged()) sync_->SyncBuffers();
    const size_t count = inputs.micro_batches.size();
    for (size_t i = 0; i < count; ++i) {
      reducer().PrepareBackward(i + 1 == count);
      RunMicroBatch(inputs, i, *model_);
    }
  }
  double GradientNorm() override {
    reducer().WaitForBuckets();
    return GlobalNorm(reducer().Gradients());
  }
  double ClipGradients(double max_norm) override {
    const double norm = GradientNorm();
    ClipTo(max_norm, norm, reducer().FlatGradients());  // fewer tensors than parameters
    return norm;
  }
  void Step() override {
    // Fewer calls of the optimizer's kernels where there is nothing to wait for in between.
    if (by_bucket_) {
      reducer().WaitForBuckets(update_);
    } else if (!in_backward_) {
      optimizer_->Step(learning_rate_);
    }
    if (averager_) averager_->AfterStep();
  }
  void Finish() override {
    if (averager_) averager_->Average();
  }
  void BeforeEvaluation() override { sync_->SyncBuffers(); }
  bool averages_gradients() const override { return !averager_ || averager_->warming_up(); }
  bool ranks_met() const override { return averaged_gradients_ || averager_->averaged(); }
  void Report(const Observers& observers, int64_t step) override {
    const BucketTuning* tuning = reducer().tuning();
    if (tuning == nullptr || std::exchange(tuning_reported_, true)) return;
    observers.Tell(&Observer::OnBucketSizes, ReportOf(*tuning, step));
  }
  void NameState(StateVisitor& visitor) override {
    // First: it says whether ranks train on their own, each with a model of its own.
    visitor.Section("averager.");
    if (averager_) averager_->NameState(visitor);
    const RankPart part = averages_gradients() ? RankPart() : own_;
    NameModel(*model_, part, equal_buffers_ ? part : own_, visitor);
    visitor.Section("optimizer.", part);
    optimizer_->NameState(visitor);
    visitor.Section("hook.", own_);
    reducer().NameState(visitor);
  }
  double exposed_seconds() const override { return sync_->reducer().exposed_seconds(); }

 private:
  Reducer& reducer() { return sync_->reducer(); }

  const bool by_bucket_;
  const bool in_backward_;
  const std::shared_ptr<Model> model_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Reducer::Ready update_;
  const bool equal_buffers_;
  const RankPart own_;
  std::optional<ModuleSync> sync_;
  std::optional<PeriodicModelAverager> averager_;
  double learning_rate_ = 0;        // of the step under way
  bool averaged_gradients_ = true;  // in that step
  bool tuning_reported_ = false;
};

}  // namespace

void RunMicroBatch(const StepInputs& inputs, size_t micro_batch, Model& model) {
  const at::Tensor loss = inputs.loss(model, inputs.micro_batches[micro_batch], micro_batch);
  try {
    loss.backward();
  } catch (const Failure&) {
    throw;  // of communication, which goes on meanwhile
  } catch (...) {
    throw Failure(Error{
        .code = Code::kFailed,
        .title = "GRADIENTS CANNOT BE COMPUTED",
        .where = "step " + std::to_string(inputs.step),
        .what = "While backward() went through the model, this was thrown:\n" + ExceptionText(),
        .hint = "In a model of your own, look for tensors changed in place after they were used, "
                "for targets of another type than the outputs (integers where floating point "
                "numbers belong), and for what its own autograd functions throw.",
        .page = "gradients-cannot-be-computed"});
  }
}

std::unique_ptr<Strategy> MakeSingle(std::shared_ptr<Model> model,
                                     std::unique_ptr<Optimizer> optimizer) {
  return std::make_unique<Single>(std::move(model), std::move(optimizer));
}

std::unique_ptr<Strategy> MakeDistributedDataParallel(std::shared_ptr<Model> model,
                                                      std::unique_ptr<Optimizer> optimizer,
                                                      const Mesh& mesh,
                                                      const DataParallelOptions& options) {
  return std::make_unique<DistributedDataParallel>(std::move(model), std::move(optimizer), mesh,
                                                   options);
}

}  // namespace ddprun::trainer

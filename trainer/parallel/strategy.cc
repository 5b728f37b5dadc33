#include "trainer/parallel/strategy.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>

#include <utility>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/norm.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/strategy_parts.h"
#include "trainer/parallel/virtual_ranks.h"

namespace ddprun::trainer {

namespace {

void NameModel(const Model& model,
               RankPart parameters,
               RankPart buffers,
               const Mesh& mesh,
               StateVisitor& visitor) {
  BeginSection("model.", parameters, mesh, visitor);
  for (const auto& item : model.named_parameters()) {
    visitor.Tensor(item.key(), item.value(), model.PlacementOf(item.key()));
  }
  BeginSection("model.", buffers, mesh, visitor);
  for (const auto& item : model.named_buffers()) visitor.Tensor(item.key(), item.value());
}

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

// Names the settings that decide the bits of virtual ranks. Throws Failure if a save has others.
void NameVirtualRanks(int64_t ranks, StateVisitor& visitor) {
  visitor.Section("virtual_ranks.");
  const auto name = [&](const char* what, int64_t here) {
    int64_t saved = here;
    visitor.Number(what, saved);
    if (saved == here) return;
    throw Failure(Error{.code = Code::kStateDoesNotFit,
                        .title = "STATE DOES NOT FIT",
                        .where = std::string("virtual_ranks.") + what,
                        .what = "The run was saved with " + std::to_string(saved) +
                                "; here it is " + std::to_string(here) +
                                ", which would give other bits.",
                        .hint = "Go on with the training.virtual_ranks and training.matmul_engine "
                                "of the saved run.",
                        .page = "state-does-not-fit"});
  };
  name("count", ranks);
  name("threads", at::get_num_threads());
  name("onednn", CurrentMatmulEngine() == MatmulEngine::kOneDnn ? 1 : 0);
}

std::vector<at::Tensor> CopiesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

void CopyTo(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& from) {
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(from[i]);
}

class DistributedDataParallel : public Strategy {
 public:
  DistributedDataParallel(std::shared_ptr<Model> model,
                          std::unique_ptr<Optimizer> optimizer,
                          const Mesh& mesh,
                          DataParallelOptions options)
      : by_bucket_(options.sync.reducer.WaitsInStep()),
        in_backward_(options.update_in_backward),
        mesh_(mesh),
        model_(std::move(model)),
        parameters_(*model_, mesh),
        optimizer_(std::move(optimizer)),
        update_([this](auto parameters) { optimizer_->Step(learning_rate_, parameters); }),
        equal_buffers_(options.sync.broadcast_buffers),
        own_{.rank = mesh.data.rank, .size = mesh.data.size},
        shards_(options.shards) {
    if (shards_) replicas_ = {.rank = mesh.replica.rank, .size = mesh.replica.size};
    if (in_backward_) options.sync.reducer.update_in_backward = update_;
    if (options.virtual_ranks > 0) {
      virtual_ =
          std::make_shared<VirtualRanks>(options.virtual_ranks, mesh.data.rank, mesh.data.size);
      options.sync.reducer.comm_hook = virtual_;
    }
    sync_.emplace(*model_, mesh.WithSameLayers(), options.sync);
    if (options.averaging) {
      averager_.emplace(parameters_.all(), mesh.data.group, *options.averaging);
    }
  }

  void ForwardBackward(const StepInputs& inputs) override {
    learning_rate_ = inputs.learning_rate;
    averaged_gradients_ = averages_gradients();
    reducer().BeginStep();
    // Ranks do not wait for each other between averages of parameters, so buffers are not copied.
    if (averaged_gradients_ || averager_->averaged()) sync_->SyncBuffers();
    if (virtual_ != nullptr) return RunVirtualRanks(inputs);
    const size_t count = inputs.micro_batches.size();
    for (size_t i = 0; i < count; ++i) {
      reducer().PrepareBackward(i + 1 == count);
      RunMicroBatch(inputs, i, *model_);
    }
  }
  std::vector<at::Tensor> Gradients() override {
    reducer().WaitForBuckets();
    return reducer().Gradients();
  }
  DeviceScalar GradientNorm() override {
    return NormOverModel(SquaresOf(parameters_.SelectCounted(Gradients())), mesh_);
  }
  DeviceScalar ClipGradients(double max_norm) override {
    const DeviceScalar norm = GradientNorm();
    ClipTo(max_norm, norm, reducer().FlatGradients());  // fewer tensors than parameters
    return norm;
  }
  void Step() override {
    // Without overlap, one call for all parameters, because this needs fewer kernel calls.
    if (shards_) {
      shards_->TakeGradients();
      shards_->Step(update_);
    } else if (by_bucket_) {
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
    observers.Notify(&Observer::OnBucketSizes, ReportOf(*tuning, step));
  }
  void NameState(StateVisitor& visitor) override {
    // The averager comes first, because its state decides whether each rank has a model of its own.
    visitor.Section("averager.");
    if (averager_) averager_->NameState(visitor);
    const RankPart part = averages_gradients() ? RankPart() : own_;
    NameModel(*model_, part, equal_buffers_ ? part : own_, mesh_, visitor);
    if (shards_) {
      visitor.Section("optimizer.", part, replicas_);
    } else {
      BeginSection("optimizer.", part, mesh_, visitor);
    }
    optimizer_->NameState(visitor);
    visitor.Section("hook.", own_);
    reducer().NameState(visitor);
    if (virtual_ != nullptr) NameVirtualRanks(virtual_->ranks(), visitor);
  }
  void Rejoin(int giver) override { sync_->Rejoin(giver); }
  double exposed_seconds() const override {
    return sync_->reducer().exposed_seconds() + (shards_ ? shards_->exposed_seconds() : 0);
  }

 private:
  Reducer& reducer() { return sync_->reducer(); }
  void RunVirtualRanks(const StepInputs& inputs);

  const bool by_bucket_;
  const bool in_backward_;
  const Mesh mesh_;
  const std::shared_ptr<Model> model_;
  const TrainedParameters parameters_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Reducer::Ready update_;
  const bool equal_buffers_;
  const RankPart own_;
  const std::shared_ptr<ShardedUpdate> shards_;  // nullptr: this rank updates all
  RankPart replicas_ = {.rank = 0, .size = 0};   // of the optimizer's state
  std::shared_ptr<VirtualRanks> virtual_;        // nullptr: no virtual ranks
  std::optional<ModuleSync> sync_;
  std::optional<PeriodicModelAverager> averager_;
  DeviceScalar learning_rate_;      // of the current step
  bool averaged_gradients_ = true;  // whether the current step averages them
  bool tuning_reported_ = false;
};

void DistributedDataParallel::RunVirtualRanks(const StepInputs& inputs) {
  const at::NoGradGuard no_grad;
  virtual_->BeginStep();
  const auto own = static_cast<size_t>(virtual_->own().size());
  // All own virtual ranks start from the buffers (of BatchNorm) that the step began with. The step
  // keeps the buffers of the first one.
  const std::vector<at::Tensor> buffers = own > 1 ? model_->buffers() : std::vector<at::Tensor>();
  const std::vector<at::Tensor> before = CopiesOf(buffers);
  std::vector<at::Tensor> first;
  for (size_t rank = 0; rank < own; ++rank) {
    for (size_t i = rank; i < inputs.micro_batches.size(); i += own) {
      const at::AutoGradMode grad(true);
      reducer().PrepareBackward(i + 1 == inputs.micro_batches.size());
      RunMicroBatch(inputs, i, *model_);
    }
    if (rank == 0) first = CopiesOf(buffers);
    if (rank + 1 == own) break;
    CopyTo(buffers, before);
    virtual_->Keep(reducer().TakeLocalGradients());
  }
  CopyTo(buffers, first);
}

}  // namespace

void Strategy::ScaleGradients(double factor) {
  std::vector<at::Tensor> gradients = Gradients();
  std::erase_if(gradients, [](const at::Tensor& gradient) { return !gradient.defined(); });
  const at::NoGradGuard no_grad;
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor);
}

void Strategy::Rejoin(int /*giver*/) {
  DDPRUN_CHECK(false);  // facts.cc excludes such strategies with run.recovery
}

BatchEvaluation Strategy::EvaluateBatch(Model& model, const Batch& batch, bool with_outputs) {
  if (!with_outputs) return {.loss = model.Loss(batch)};
  const at::Tensor outputs = model.Outputs(batch);
  return {.loss = model.LossFrom(outputs, batch), .outputs = outputs};
}

std::unique_ptr<Strategy> MakeSingle(std::shared_ptr<Model> model,
                                     std::unique_ptr<Optimizer> optimizer,
                                     const Mesh& mesh) {
  return std::make_unique<Single>(std::move(model), std::move(optimizer), mesh);
}

std::unique_ptr<Strategy> MakeDistributedDataParallel(std::shared_ptr<Model> model,
                                                      std::unique_ptr<Optimizer> optimizer,
                                                      const Mesh& mesh,
                                                      const DataParallelOptions& options) {
  return std::make_unique<DistributedDataParallel>(std::move(model), std::move(optimizer), mesh,
                                                   options);
}

}  // namespace ddprun::trainer

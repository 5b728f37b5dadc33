#include "trainer/strategies/ddp.h"

#include <utility>
#include <vector>

#include "trainer/compute/norm.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/virtual_ranks.h"
#include "trainer/strategies/strategy_parts.h"

namespace ddprun::trainer {

namespace {

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
    const size_t count = inputs.micro_batches.size();
    const auto run = [&](size_t micro_batch) {
      reducer().PrepareBackward(micro_batch + 1 == count);
      RunMicroBatch(inputs, micro_batch, *model_);
    };
    if (virtual_ != nullptr) {
      return virtual_->RunStep(count, model_->buffers(), run,
                               [this] { return reducer().TakeLocalGradients(); });
    }
    for (size_t i = 0; i < count; ++i) run(i);
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
  void SwapAverages() override { ExchangeForAverages(*optimizer_, shards_.get()); }
  void Finish() override {
    if (averager_) averager_->Average();
  }
  void BeforeEvaluation() override { sync_->SyncBuffers(); }
  bool averages_gradients() const override { return !averager_ || averager_->warming_up(); }
  bool ranks_met() const override { return averaged_gradients_ || averager_->averaged(); }
  void Report(const Observers& observers, int64_t step) override {
    const BucketTuning* tuning = reducer().tuning();
    if (tuning == nullptr || std::exchange(tuning_reported_, true)) return;
    observers.Notify(&Observer::OnBucketSizes, BucketSizesOf(*tuning, step));
  }
  void NameState(StateVisitor& visitor) override {
    // The averager comes first, because its state decides whether each rank has a model of its own.
    visitor.Section("averager.");
    if (averager_) averager_->NameState(visitor);
    const std::optional<RankPart> own = averages_gradients() ? std::nullopt : std::optional(own_);
    NameModel(*model_, own, equal_buffers_ ? own : own_, mesh_, visitor);
    if (shards_) {
      visitor.Section("optimizer.", own, replicas_);
    } else {
      BeginSection("optimizer.", own, mesh_, visitor);
    }
    optimizer_->NameState(visitor);
    visitor.Section("hook.", own_);
    reducer().NameState(visitor);
    if (virtual_ != nullptr) virtual_->NameSettings(visitor);
  }
  void Rejoin(int giver) override { sync_->Rejoin(giver); }
  std::vector<at::Tensor> OwnState() override { return OwnStateOf(shards_.get(), *optimizer_); }
  void ShareOwnState() override { Share(shards_.get()); }
  double exposed_seconds() const override {
    return sync_->reducer().exposed_seconds() + (shards_ ? shards_->exposed_seconds() : 0);
  }

 private:
  Reducer& reducer() { return sync_->reducer(); }

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

}  // namespace

std::unique_ptr<Strategy> MakeDistributedDataParallel(std::shared_ptr<Model> model,
                                                      std::unique_ptr<Optimizer> optimizer,
                                                      const Mesh& mesh,
                                                      const DataParallelOptions& options) {
  return std::make_unique<DistributedDataParallel>(std::move(model), std::move(optimizer), mesh,
                                                   options);
}

}  // namespace ddprun::trainer

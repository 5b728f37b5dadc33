#include "trainer/strategies/zero.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "trainer/parallel/gathered_units.h"
#include "trainer/parallel/sharded_gradients.h"
#include "trainer/parallel/sharded_update.h"
#include "trainer/state/placement.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/strategy_parts.h"

namespace ddprun::trainer {

namespace {

// The strategy of kGradients and kParameters.
class Zero : public Strategy {
 public:
  Zero(std::shared_ptr<Model> model,
       const MakeShardOptimizer& make_optimizer,
       const Mesh& mesh,
       const ZeroOptions& options)
      : model_(std::move(model)),
        mesh_(mesh),
        tensors_(*model_),
        broadcast_buffers_(options.data_parallel.sync.broadcast_buffers) {
    const ReducerOptions& reducer = options.data_parallel.sync.reducer;
    const bool rejoins = options.data_parallel.sync.rejoins;
    if (!rejoins) VerifySameModel(tensors_.all, *mesh_.WithSameLayers().control);
    if (options.stage == ZeroStage::kParameters) {
      MakeGatheredUnits(options.blocks, rejoins);
    } else {
      update_.emplace(tensors_.trained, mesh_.shard, reducer.limits.cap_bytes);
      if (!rejoins) BroadcastFrom(0, tensors_.trained, *mesh_.data.group);
    }
    if (!rejoins && !tensors_.others.empty()) {
      BroadcastFrom(0, tensors_.others, *mesh_.data.group);
    }
    shards_ = ShardsOfModel(*model_, units());
    gradients_.emplace(units(), tensors_.trained, mesh_,
                       ShardedGradients::Options{.on_complete =
                                                     [this](size_t unit) {
                                                       if (gathered_) gathered_->Free(unit);
                                                     },
                                                 .adds_to_sums =
                                                     [this](const std::string& parameter) {
                                                       return AddsGradientToSums(*model_, parameter,
                                                                                 mesh_);
                                                     },
                                                 .check_finite = reducer.check_finite,
                                                 .recorder = reducer.recorder});
    optimizer_ = make_optimizer(shards_);
  }

  void ForwardBackward(const StepInputs& inputs) override {
    learning_rate_ = inputs.learning_rate;
    const double before = gathered_ ? gathered_->exposed_seconds() : 0;
    gradients_->BeginStep();
    BeforeEvaluation();
    for (size_t i = 0; i < inputs.micro_batches.size(); ++i) {
      if (gathered_) gathered_->BeforeForward();
      gradients_->PrepareBackward(i + 1 == inputs.micro_batches.size());
      RunMicroBatch(inputs, i, *model_);
    }
    exposed_seconds_ = gradients_->exposed_seconds();
    if (gathered_) exposed_seconds_ += gathered_->exposed_seconds() - before;
  }
  // Returns this rank's pieces of the gradients.
  std::vector<at::Tensor> Gradients() override { return gradients_->Gradients(); }
  DeviceScalar GradientNorm() override { return gradients_->Norm(); }
  DeviceScalar ClipGradients(double max_norm) override {
    const DeviceScalar norm = gradients_->Norm();
    ClipTo(max_norm, norm, gradients_->FlatGradients());
    return norm;
  }
  void Step() override {
    if (!update_) return optimizer_->Step(learning_rate_);
    update_->Step([this](auto pieces) { optimizer_->Step(learning_rate_, pieces); });
    exposed_seconds_ += update_->exposed_seconds();
  }
  void SwapAverages() override { ExchangeForAverages(*optimizer_, update_ ? &*update_ : nullptr); }
  bool holds_whole_model() const override { return !gathered_; }
  void BeforeEvaluation() override {
    if (!broadcast_buffers_ || tensors_.buffers.empty()) return;
    BroadcastFrom(0, tensors_.buffers, *mesh_.data.group);
  }
  BatchEvaluation EvaluateBatch(Model& model, const Batch& batch, bool with_outputs) override {
    if (gathered_) gathered_->BeforeForward();
    BatchEvaluation found = Strategy::EvaluateBatch(model, batch, with_outputs);
    if (gathered_) gathered_->AfterForward();
    return found;
  }
  bool evaluates_together() const override { return gathered_.has_value(); }
  double exposed_seconds() const override { return exposed_seconds_; }
  void Rejoin(int /*giver*/) override {
    VerifySameModel(tensors_.all, *mesh_.WithSameLayers().control);
    gradients_->Rejoin();
    if (gathered_) gathered_->Rejoin();
  }
  std::vector<at::Tensor> OwnState() override { return OwnStateOf(units(), *optimizer_); }
  void ShareOwnState() override { Share(update_ ? &*update_ : nullptr); }

  void NameState(StateVisitor& visitor) override {
    const RankPart replicas = {.rank = mesh_.replica.rank, .size = mesh_.replica.size};
    if (gathered_) {
      visitor.Section("model.", {}, replicas);
      for (const Shard& shard : shards_) {
        visitor.Tensor(shard.name, shard.values, shard.placement);
      }
    }
    BeginSection("model.", {}, mesh_, visitor);
    const size_t parameters = tensors_.all.size() - tensors_.buffers.size();
    for (const NamedParameter& one : std::span(tensors_.all).first(parameters)) {
      if (gathered_ && one.tensor.requires_grad()) continue;
      visitor.Tensor(one.name, one.tensor, model_->PlacementOf(one.name));
    }
    std::optional<RankPart> own;
    if (!broadcast_buffers_) own = {.rank = mesh_.data.rank, .size = mesh_.data.size};
    BeginSection("model.", own, mesh_, visitor);
    for (const NamedParameter& one : tensors_.buffers) visitor.Tensor(one.name, one.tensor);
    visitor.Section("optimizer.", {}, replicas);
    optimizer_->NameState(visitor);
  }

 private:
  std::span<ShardedUnit> units() { return gathered_ ? gathered_->units() : update_->units(); }
  void MakeGatheredUnits(const std::vector<std::vector<std::string>>& blocks, bool rejoins);

  const std::shared_ptr<Model> model_;
  const Mesh mesh_;
  const ModuleTensors tensors_;
  const bool broadcast_buffers_;
  std::optional<ShardedUpdate> update_;    // kGradients
  std::optional<GatheredUnits> gathered_;  // kParameters
  std::vector<Shard> shards_;
  std::optional<ShardedGradients> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  double learning_rate_ = 0;  // of the current step
  double exposed_seconds_ = 0;
};

void Zero::MakeGatheredUnits(const std::vector<std::vector<std::string>>& blocks, bool rejoins) {
  std::vector<std::vector<size_t>> members;
  std::map<std::vector<std::string>, size_t> known;
  for (const std::vector<std::string>& modules : blocks) {
    known[modules] = members.size();
    std::vector<size_t>& block = members.emplace_back();
    for (size_t i = 0; i < tensors_.trained.size(); ++i) {
      const auto holds = [&](const std::string& module) {
        return tensors_.trained[i].name.starts_with(module + ".");
      };
      if (std::ranges::any_of(modules, holds)) block.push_back(i);
    }
  }
  gathered_.emplace(tensors_.trained, members, mesh_, rejoins);
  model_->SetStageHook(
      [this, known, inner = model_->stage_hook()](const Stage& stage, const at::Tensor& x) {
        if (!stage.is_block) return inner(stage, x);
        return gathered_->Run(
            known.at(stage.modules), [&](const at::Tensor& in) { return inner(stage, in); }, x);
      });
}

}  // namespace

std::vector<ParameterGroup> GroupShards(const std::vector<Shard>& shards,
                                        const std::vector<std::string>& no_decay,
                                        double weight_decay) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  std::map<std::string, StatePlacement> placements;
  for (const Shard& shard : shards) {
    named.emplace_back(shard.name, shard.values);
    placements[shard.name] = shard.placement;
  }
  std::vector<ParameterGroup> groups = GroupByDecay(named, no_decay, weight_decay);
  for (ParameterGroup& group : groups) {
    for (const std::string& name : group.names) group.placements.push_back(placements[name]);
  }
  return groups;
}

std::vector<Shard> ShardsOfModel(const Model& model, std::span<const ShardedUnit> units) {
  std::vector<Shard> shards = ShardsOf(units);
  for (Shard& shard : shards) {
    const StateSlice part = shard.placement.front().slice;
    shard.placement = FlatPart(model.PlacementOf(shard.name), part.global_shape, part.offset[0],
                               part.offset[0] + shard.values.numel());
  }
  return shards;
}

std::vector<std::vector<std::string>> BlocksOf(const Model& model, const Batch& batch) {
  std::vector<std::vector<std::string>> blocks;
  for (const Stage& stage : model.Stages(batch)) {
    if (stage.is_block) blocks.push_back(stage.modules);
  }
  return blocks;
}

std::unique_ptr<Strategy> MakeZero(std::shared_ptr<Model> model,
                                   const MakeShardOptimizer& make_optimizer,
                                   const Mesh& mesh,
                                   const ZeroOptions& options) {
  if (options.stage != ZeroStage::kOptimizer) {
    return std::make_unique<Zero>(std::move(model), make_optimizer, mesh, options);
  }
  DataParallelOptions data_parallel = options.data_parallel;
  const std::vector<NamedParameter> trained = ModuleTensors(*model).trained;
  data_parallel.shards = std::make_shared<ShardedUpdate>(
      trained, mesh.shard, data_parallel.sync.reducer.limits.cap_bytes);
  std::unique_ptr<Optimizer> optimizer =
      make_optimizer(ShardsOfModel(*model, data_parallel.shards->units()));
  return MakeDistributedDataParallel(std::move(model), std::move(optimizer), mesh, data_parallel);
}

}  // namespace ddprun::trainer

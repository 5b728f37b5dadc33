#include "trainer/strategies/pipeline.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <utility>

#include "trainer/compute/norm.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/strategies/pipeline_peers.h"
#include "trainer/strategies/strategy_parts.h"

namespace ddprun::trainer {

namespace {

using Kind = PipelineAction::Kind;

Batch OnDevice(Batch batch, c10::Device device) {
  for (at::Tensor* tensor : batch.Tensors()) {
    if (tensor->defined()) *tensor = tensor->to(device, /*non_blocking=*/true);
  }
  return batch;
}

class Pipeline : public Strategy {
 public:
  Pipeline(std::shared_ptr<Model> model,
           PipelineUpdate own,
           PipelineUpdate shared,
           const Mesh& mesh,
           const PipelineOptions& options)
      : model_(std::move(model)),
        own_update_(std::move(own)),
        shared_update_(std::move(shared)),
        mesh_(mesh),
        options_(options),
        peers_(mesh),
        parameters_(*model_, mesh) {
    for (const PipelineStage& stage : options_.own) own_.push_back({.stage = stage});
    if (mesh_.data.size == 1) return;
    // The ranks that have this stage keep it equal among themselves.
    sync_.emplace(*model_, mesh_.WithSameLayers(), options_.sync);
  }

  void ForwardBackward(const StepInputs& inputs) override {
    learning_rate_ = inputs.learning_rate;
    peers_.TakeWaitedSeconds();
    if (sync_) {
      sync_->reducer().BeginStep();
      sync_->SyncBuffers();
    }
    for (const at::Tensor& parameter : parameters_.all()) {
      if (!sync_) parameter.mutable_grad().reset();
    }
    const auto micro_batches = static_cast<int>(inputs.micro_batches.size());
    for (const auto& [own, action] : OrderOf(micro_batches)) {
      const auto i = static_cast<size_t>(action.micro_batch);
      action.kind == Kind::kForward ? Forward(inputs, i, *own) : Backward(inputs, i, *own);
    }
    SumShared();
    peers_.WaitForSends();
    waited_seconds_ = peers_.TakeWaitedSeconds();
  }
  std::vector<at::Tensor> Gradients() override {
    if (sync_) return sync_->reducer().Gradients();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_.all()) gradients.push_back(parameter.grad());
    return gradients;
  }
  DeviceScalar GradientNorm() override;
  DeviceScalar ClipGradients(double max_norm) override;
  void Step() override {
    for (const PipelineUpdate* update : {&own_update_, &shared_update_}) Update(*update);
  }
  void SwapAverages() override {
    for (const PipelineUpdate* update : {&own_update_, &shared_update_}) {
      if (update->optimizer) ExchangeForAverages(*update->optimizer, update->shards.get());
    }
  }
  void BeforeEvaluation() override {
    if (sync_) sync_->SyncBuffers();
  }
  BatchEvaluation EvaluateBatch(Model& model, const Batch& batch, bool with_outputs) override;
  void NameState(StateVisitor& visitor) override;
  // false with several stages, because a model on several devices cannot be used as one.
  bool holds_whole_model() const override { return own_.size() == 1; }
  double exposed_seconds() const override {
    double seconds = sync_ ? sync_->reducer().exposed_seconds() : 0;
    for (const PipelineUpdate* update : {&own_update_, &shared_update_}) {
      if (update->shards) seconds += update->shards->exposed_seconds();
    }
    return seconds;
  }
  double pipeline_wait_seconds() const override { return waited_seconds_; }

 private:
  // The tensors that a stage keeps between a forward and its backward.
  struct StageTensors {
    at::Tensor input;
    at::Tensor output;
  };
  struct OwnStage {
    PipelineStage stage;
    std::deque<StageTensors> kept = {};
    std::deque<at::Tensor> inputs = {};     // from this rank's stage before
    std::deque<at::Tensor> gradients = {};  // from this rank's stage after
  };

  bool IsLast(const OwnStage& own) const { return own.stage.index + 1 == options_.stages; }
  bool SharesWithRanks() const { return mesh_.pipeline.size > 1; }
  std::vector<std::pair<OwnStage*, PipelineAction>> OrderOf(int micro_batches);
  void Forward(const StepInputs& inputs, size_t micro_batch, OwnStage& own);
  void Backward(const StepInputs& inputs, size_t micro_batch, OwnStage& own);
  at::Tensor TakeInput(const Batch& batch, OwnStage& own);
  void GiveForward(const at::Tensor& output, const OwnStage& own);
  void SumShared();
  // Returns nullptr if no other rank's stage has the parameter.
  const SharedParameter* SharedAs(const at::Tensor& parameter) const;
  void Update(const PipelineUpdate& update) const;
  void NameUpdate(const PipelineUpdate& update,
                  int64_t place,
                  int64_t places,
                  StateVisitor& visitor) const;
  // Returns the counted gradients, by device of this rank's stages.
  std::vector<std::vector<at::Tensor>> CountedGradients();

  const std::shared_ptr<Model> model_;
  const PipelineUpdate own_update_;
  const PipelineUpdate shared_update_;
  const Mesh mesh_;
  const PipelineOptions options_;
  PipelinePeers peers_;
  std::vector<OwnStage> own_;
  const TrainedParameters parameters_;
  std::optional<ModuleSync> sync_;
  double learning_rate_ = 0;  // of the current step
  double waited_seconds_ = 0;
};

std::vector<std::pair<Pipeline::OwnStage*, PipelineAction>> Pipeline::OrderOf(int micro_batches) {
  std::vector<PipelineActions> actions;
  for (const OwnStage& own : own_) {
    actions.push_back(options_.schedule(own.stage.index, options_.stages, micro_batches));
  }
  std::vector<std::pair<OwnStage*, PipelineAction>> order;
  if (own_.size() == 1) {
    for (const PipelineAction& action : actions[0]) order.emplace_back(own_.data(), action);
    return order;
  }
  for (const PipelineEvent& event : SimulatePipeline(actions)) {
    order.emplace_back(&own_[static_cast<size_t>(event.stage)], event.action);
  }
  return order;
}

at::Tensor Pipeline::TakeInput(const Batch& batch, OwnStage& own) {
  if (own.stage.index == 0) return batch.inputs;
  if (SharesWithRanks()) return peers_.ReceiveForward();
  at::Tensor x = own.inputs.front().to(own.stage.device, /*non_blocking=*/true);
  own.inputs.pop_front();
  return x;
}

void Pipeline::GiveForward(const at::Tensor& output, const OwnStage& own) {
  if (SharesWithRanks()) return peers_.SendForward(output.detach());
  own_[static_cast<size_t>(own.stage.index + 1)].inputs.push_back(output.detach());
}

void Pipeline::Forward(const StepInputs& inputs, size_t micro_batch, OwnStage& own) {
  const auto& [index, begin, end, device] = own.stage;
  const c10::OptionalDeviceGuard guard(device);
  const Batch batch = OnDevice(inputs.micro_batches[micro_batch], device);
  at::Tensor x = TakeInput(batch, own);
  if (index > 0) x = x.detach().requires_grad_();
  const auto forward = [&, begin = begin, end = end] {
    if (!IsLast(own)) return model_->RunStages(batch, begin, end, x);
    return model_->RunFromStage(begin, x, [&] { return inputs.loss(*model_, batch, micro_batch); });
  };
  const at::Tensor y = inputs.part ? inputs.part(micro_batch, index, device, forward) : forward();
  own.kept.push_back({x, y});
  if (!IsLast(own)) GiveForward(y, own);
}

void Pipeline::Backward(const StepInputs& inputs, size_t micro_batch, OwnStage& own) {
  const c10::OptionalDeviceGuard guard(own.stage.device);
  const StageTensors kept = std::move(own.kept.front());
  own.kept.pop_front();
  at::Tensor gradient;  // undefined: the output is a loss
  if (!IsLast(own) && SharesWithRanks()) {
    gradient = peers_.Receive(kept.output.detach(), own.stage.index + 1);
  } else if (!IsLast(own)) {
    gradient = own.gradients.front().to(own.stage.device, /*non_blocking=*/true);
    own.gradients.pop_front();
  }
  if (sync_) sync_->reducer().PrepareBackward(micro_batch + 1 == inputs.micro_batches.size());
  RunBackward(inputs.step, kept.output, gradient);
  if (own.stage.index == 0) return;
  if (SharesWithRanks()) return peers_.Send(kept.input.grad(), own.stage.index - 1);
  own_[static_cast<size_t>(own.stage.index - 1)].gradients.push_back(kept.input.grad());
}

// Sums the gradients of shared parameters in the order of stages, for equal bits on all ranks.
void Pipeline::SumShared() {
  const at::NoGradGuard no_grad;
  for (const SharedParameter& shared : options_.shared) {
    const at::Tensor& gradient = shared.tensor.grad();
    const auto own = std::ranges::find(shared.stages, mesh_.pipeline.rank);
    const std::span<const int> before(shared.stages.begin(), own);
    const std::span<const int> after(own + 1, shared.stages.end());
    std::map<int, at::Tensor> parts = {{*own, gradient}};
    const auto receive = [&](int stage) { parts[stage] = peers_.Receive(gradient, stage); };
    const auto send = [&](int stage) { peers_.Send(gradient, stage); };
    // All messages to later stages come before those to earlier ones, because the first message
    // between two stages may wait for its receiver.
    std::ranges::for_each(before, receive);
    std::ranges::for_each(after, send);
    std::for_each(after.rbegin(), after.rend(), receive);
    std::for_each(before.rbegin(), before.rend(), send);
    at::Tensor sum;
    for (const auto& [stage, part] : parts) sum = sum.defined() ? sum + part : part;
    peers_.WaitForSends();
    gradient.copy_(sum);
  }
}

const SharedParameter* Pipeline::SharedAs(const at::Tensor& parameter) const {
  const auto is_it = [&](const auto& shared) { return shared.tensor.is_same(parameter); };
  const auto found = std::ranges::find_if(options_.shared, is_it);
  return found == options_.shared.end() ? nullptr : &*found;
}

std::vector<std::vector<at::Tensor>> Pipeline::CountedGradients() {
  std::vector<at::Tensor> own;
  for (const at::Tensor& parameter : parameters_.all()) {
    const SharedParameter* shared = SharedAs(parameter);
    const bool elsewhere = shared != nullptr && shared->stages.front() != mesh_.pipeline.rank;
    own.push_back(elsewhere ? at::Tensor() : parameter.grad());
  }
  std::vector<std::vector<at::Tensor>> by_device;
  for (const at::Tensor& gradient : parameters_.SelectCounted(std::move(own))) {
    const auto place = std::ranges::find_if(
        by_device, [&](const auto& known) { return known.front().device() == gradient.device(); });
    place == by_device.end() ? by_device.push_back({gradient}) : place->push_back(gradient);
  }
  return by_device;
}

DeviceScalar Pipeline::GradientNorm() {
  DeviceScalar squares;
  for (const std::vector<at::Tensor>& gradients : CountedGradients()) {
    const DeviceScalar here = SquaresOf(gradients);
    const at::Tensor& there = here.on_device();
    squares += there.defined() ? DeviceScalar(there.to(own_.back().stage.device)) : here;
  }
  return NormOverModel(squares, mesh_);
}

DeviceScalar Pipeline::ClipGradients(double max_norm) {
  const DeviceScalar norm = GradientNorm();
  if (sync_) {
    ClipTo(max_norm, norm, sync_->reducer().FlatGradients());
    return norm;
  }
  std::vector<at::Tensor> gradients = GradientsOf(parameters_.all());
  while (!gradients.empty()) {
    const c10::Device device = gradients[0].device();
    const auto rest =
        std::stable_partition(gradients.begin(), gradients.end(),
                              [&](const auto& gradient) { return gradient.device() == device; });
    const at::Tensor& there = norm.on_device();
    ClipTo(max_norm, there.defined() ? DeviceScalar(there.to(device)) : norm,
           {gradients.begin(), rest});
    gradients.erase(gradients.begin(), rest);
  }
  return norm;
}

BatchEvaluation Pipeline::EvaluateBatch(Model& model, const Batch& batch, bool with_outputs) {
  BatchEvaluation found;
  for (OwnStage& own : own_) {
    const auto& [index, begin, end, device] = own.stage;
    const c10::OptionalDeviceGuard guard(device);
    const Batch here = OnDevice(batch, device);
    const at::Tensor x = TakeInput(here, own);
    if (IsLast(own)) {
      model.RunFromStage(begin, x, [&] {
        found = Strategy::EvaluateBatch(model, here, with_outputs);
        return found.loss;
      });
    } else {
      GiveForward(model.RunStages(here, begin, end, x), own);
    }
  }
  return found;
}

void Pipeline::Update(const PipelineUpdate& update) const {
  if (update.optimizer == nullptr) return;
  if (update.shards == nullptr) return update.optimizer->Step(learning_rate_);
  update.shards->TakeGradients();
  update.shards->Step([&](auto pieces) { update.optimizer->Step(learning_rate_, pieces); });
}

// Names the state of an update. `place`: of this stage among the `places` with its parameters.
void Pipeline::NameUpdate(const PipelineUpdate& update,
                          int64_t place,
                          int64_t places,
                          StateVisitor& visitor) const {
  const auto among = [&](const Axis& axis) {
    return RankPart{.rank = place * axis.size + axis.rank, .size = places * axis.size};
  };
  const bool shared = &update == &shared_update_;
  visitor.Section("model.", {}, among(mesh_.data));
  for (const auto& item : model_->State()) {
    if ((SharedAs(item.value()) != nullptr) != shared) continue;
    visitor.Tensor(item.key(), item.value(), model_->PlacementOf(item.key()));
  }
  if (update.optimizer == nullptr) return;
  visitor.Section("optimizer.", {}, among(update.shards ? mesh_.replica : mesh_.data));
  update.optimizer->NameState(visitor);
}

void Pipeline::NameState(StateVisitor& visitor) {
  NameUpdate(own_update_, 0, 1, visitor);
  if (options_.shared.empty()) return;
  // All shared parameters have equal stages, because a model ties its last part to its first one.
  const std::vector<int>& stages = options_.shared.front().stages;
  const auto place = std::ranges::find(stages, mesh_.pipeline.rank) - stages.begin();
  NameUpdate(shared_update_, place, static_cast<int64_t>(stages.size()), visitor);
}

}  // namespace

std::unique_ptr<Strategy> MakePipeline(std::shared_ptr<Model> model,
                                       PipelineUpdate own,
                                       PipelineUpdate shared,
                                       const Mesh& mesh,
                                       const PipelineOptions& options) {
  return std::make_unique<Pipeline>(std::move(model), std::move(own), std::move(shared), mesh,
                                    options);
}

}  // namespace ddprun::trainer

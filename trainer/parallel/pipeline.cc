#include "trainer/parallel/pipeline.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "base/check.h"
#include "trainer/compute/norm.h"
#include "trainer/parallel/strategy_parts.h"

namespace ddprun::trainer {

namespace {

using Kind = PipelineAction::Kind;

constexpr int kTag = 0;  // messages between two ranks arrive in their order
constexpr int64_t kMostDimensions = 8;

void SendTensor(c10d::Backend& group, const at::Tensor& tensor, int to) {
  std::vector<at::Tensor> tensors = {tensor.contiguous()};
  group.send(tensors, to, kTag)->wait();
}

at::Tensor ReceiveTensor(c10d::Backend& group,
                         at::IntArrayRef sizes,
                         const at::TensorOptions& options,
                         int from) {
  std::vector<at::Tensor> tensors = {at::empty(sizes, options)};
  group.recv(tensors, from, kTag)->wait();
  return tensors[0];
}

Batch OnDevice(Batch batch, c10::Device device) {
  for (at::Tensor* tensor :
       {&batch.inputs, &batch.targets, &batch.attention_mask, &batch.token_type_ids}) {
    if (tensor->defined()) *tensor = tensor->to(device, /*non_blocking=*/true);
  }
  return batch;
}

// The ranks with the other stages. Messages go over the control group, through the host's memory:
// there a send waits for nobody, whatever the order in which the stages come to theirs, and a wait
// for a stage names its rank in the job.
class PipelinePeers {
 public:
  explicit PipelinePeers(const Mesh& mesh) : mesh_(mesh) {}

  // The stage after this one cannot know the shape.
  void SendForward(const at::Tensor& x) const {
    std::vector<int64_t> shape = {static_cast<int64_t>(x.scalar_type()), x.dim()};
    DDPRUN_CHECK(x.dim() <= kMostDimensions);
    shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
    shape.resize(kMostDimensions + 2);
    const int next = WorldRank(mesh_.pipeline.rank + 1);
    SendTensor(*mesh_.control, at::tensor(shape, at::kLong), next);
    SendTensor(*mesh_.control, x, next);
  }
  at::Tensor ReceiveForward() {
    const Waiting waiting(waited_seconds_);
    const int before = WorldRank(mesh_.pipeline.rank - 1);
    const at::Tensor shape =
        ReceiveTensor(*mesh_.control, {kMostDimensions + 2}, at::kLong, before);
    const auto* numbers = shape.const_data_ptr<int64_t>();
    return ReceiveTensor(*mesh_.control, {numbers + 2, static_cast<size_t>(numbers[1])},
                         at::device(mesh_.device).dtype(static_cast<at::ScalarType>(numbers[0])),
                         before);
  }
  void Send(const at::Tensor& gradient, int stage) const {
    SendTensor(*mesh_.control, gradient, WorldRank(stage));
  }
  at::Tensor Receive(const at::Tensor& like, int stage) {
    const Waiting waiting(waited_seconds_);
    return ReceiveTensor(*mesh_.control, like.sizes(), like.options(), WorldRank(stage));
  }
  double TakeWaitedSeconds() { return std::exchange(waited_seconds_, 0); }

 private:
  class Waiting {
   public:
    explicit Waiting(double& seconds) : seconds_(seconds) {}
    ~Waiting() {
      seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    double& seconds_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };

  int WorldRank(int stage) const {
    return mesh_.world.rank +
           (stage - mesh_.pipeline.rank) * mesh_.data.size * mesh_.tensor.size;
  }

  const Mesh mesh_;
  double waited_seconds_ = 0;
};

class Pipeline : public Strategy {
 public:
  Pipeline(std::shared_ptr<Model> model,
           std::unique_ptr<Optimizer> optimizer,
           std::unique_ptr<Optimizer> shared_optimizer,
           const Mesh& mesh,
           const PipelineOptions& options)
      : model_(std::move(model)),
        optimizer_(std::move(optimizer)),
        shared_optimizer_(std::move(shared_optimizer)),
        mesh_(mesh),
        options_(options),
        peers_(mesh) {
    for (const PipelineStage& stage : options_.own) own_.push_back({.stage = stage});
    for (const auto& item : model_->named_parameters()) {
      if (item.value().requires_grad()) parameters_.push_back(item.value());
    }
    if (mesh_.data.size == 1) return;
    // The ranks that have this stage agree among themselves.
    sync_.emplace(*model_, mesh_.OfSameLayers(), options_.sync);
  }

  void ForwardBackward(const StepInputs& inputs) override {
    learning_rate_ = inputs.learning_rate;
    peers_.TakeWaitedSeconds();
    if (sync_) {
      sync_->reducer().BeginStep();
      sync_->SyncBuffers();
    }
    for (const at::Tensor& parameter : parameters_) {
      if (!sync_) parameter.mutable_grad().reset();
    }
    const auto micro_batches = static_cast<int>(inputs.micro_batches.size());
    for (const auto& [own, action] : OrderOf(micro_batches)) {
      const auto i = static_cast<size_t>(action.micro_batch);
      action.kind == Kind::kForward ? Forward(inputs, i, *own) : Backward(inputs, i, *own);
    }
    SumShared();
    waited_seconds_ = peers_.TakeWaitedSeconds();
  }
  std::vector<at::Tensor> Gradients() override {
    if (sync_) return sync_->reducer().Gradients();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    return gradients;
  }
  DeviceScalar GradientNorm() override;
  DeviceScalar ClipGradients(double max_norm) override;
  void Step() override {
    optimizer_->Step(learning_rate_);
    if (shared_optimizer_) shared_optimizer_->Step(learning_rate_);
  }
  void BeforeEvaluation() override {
    if (sync_) sync_->SyncBuffers();
  }
  Evaluated EvaluateBatch(Model& model, const Batch& batch, bool with_outputs) override;
  void NameState(StateVisitor& visitor) override;
  // On several devices nobody could use it as one.
  bool holds_whole_model() const override { return own_.size() == 1; }
  double exposed_seconds() const override {
    return sync_ ? sync_->reducer().exposed_seconds() : 0;
  }
  double pipeline_wait_seconds() const override { return waited_seconds_; }

 private:
  // What is between a forward and its backward, and between two own stages.
  struct Kept {
    at::Tensor input;
    at::Tensor output;
  };
  struct Own {
    PipelineStage stage;
    std::deque<Kept> kept = {};
    std::deque<at::Tensor> inputs = {};     // from the own stage before
    std::deque<at::Tensor> gradients = {};  // from the own stage behind
  };

  bool IsLast(const Own& own) const { return own.stage.index + 1 == options_.stages; }
  bool SharesWithRanks() const { return mesh_.pipeline.size > 1; }
  std::vector<std::pair<Own*, PipelineAction>> OrderOf(int micro_batches);
  void Forward(const StepInputs& inputs, size_t micro_batch, Own& own);
  void Backward(const StepInputs& inputs, size_t micro_batch, Own& own);
  at::Tensor TakeInput(const Batch& batch, Own& own);
  void GiveForward(const at::Tensor& output, const Own& own);
  void SumShared();
  // By device of the own stages.
  std::vector<std::vector<at::Tensor>> CountedGradients();
  RankPart Replicas() const {
    return SharesWithRanks() ? RankPart{mesh_.data.rank, mesh_.data.size}
                             : RankPart{.rank = 0, .size = 0};
  }

  const std::shared_ptr<Model> model_;
  const std::unique_ptr<Optimizer> optimizer_;
  const std::unique_ptr<Optimizer> shared_optimizer_;  // or nullptr
  const Mesh mesh_;
  const PipelineOptions options_;
  PipelinePeers peers_;
  std::vector<Own> own_;
  std::vector<at::Tensor> parameters_;  // trained
  std::optional<ModuleSync> sync_;
  double learning_rate_ = 0;  // of the step under way
  double waited_seconds_ = 0;
};

std::vector<std::pair<Pipeline::Own*, PipelineAction>> Pipeline::OrderOf(int micro_batches) {
  std::vector<PipelineActions> actions;
  for (const Own& own : own_) {
    actions.push_back(options_.schedule(own.stage.index, options_.stages, micro_batches));
  }
  std::vector<std::pair<Own*, PipelineAction>> order;
  if (own_.size() == 1) {
    for (const PipelineAction& action : actions[0]) order.emplace_back(own_.data(), action);
    return order;
  }
  for (const PipelineEvent& event : SimulatePipeline(actions)) {
    order.emplace_back(&own_[static_cast<size_t>(event.stage)], event.action);
  }
  return order;
}

at::Tensor Pipeline::TakeInput(const Batch& batch, Own& own) {
  if (own.stage.index == 0) return batch.inputs;
  if (SharesWithRanks()) return peers_.ReceiveForward();
  at::Tensor x = own.inputs.front().to(own.stage.device, /*non_blocking=*/true);
  own.inputs.pop_front();
  return x;
}

void Pipeline::GiveForward(const at::Tensor& output, const Own& own) {
  if (SharesWithRanks()) return peers_.SendForward(output.detach());
  own_[static_cast<size_t>(own.stage.index + 1)].inputs.push_back(output.detach());
}

void Pipeline::Forward(const StepInputs& inputs, size_t micro_batch, Own& own) {
  const auto& [index, begin, end, device] = own.stage;
  const c10::OptionalDeviceGuard guard(device);
  const Batch batch = OnDevice(inputs.micro_batches[micro_batch], device);
  at::Tensor x = TakeInput(batch, own);
  if (index > 0) x = x.detach().requires_grad_();
  const auto forward = [&, begin = begin, end = end] {
    if (!IsLast(own)) return model_->RunStages(batch, begin, end, x);
    return model_->GoOnFrom(begin, x, [&] { return inputs.loss(*model_, batch, micro_batch); });
  };
  const at::Tensor y =
      inputs.part ? inputs.part(micro_batch, index, device, forward) : forward();
  own.kept.push_back({x, y});
  if (!IsLast(own)) GiveForward(y, own);
}

void Pipeline::Backward(const StepInputs& inputs, size_t micro_batch, Own& own) {
  const c10::OptionalDeviceGuard guard(own.stage.device);
  const Kept kept = std::move(own.kept.front());
  own.kept.pop_front();
  at::Tensor gradient;  // undefined: of a loss
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

// Added up in the order of the stages: the same bits everywhere.
void Pipeline::SumShared() {
  const at::NoGradGuard no_grad;
  for (const SharedParameter& shared : options_.shared) {
    const at::Tensor& gradient = shared.tensor.grad();
    for (const int stage : shared.stages) {
      if (stage != mesh_.pipeline.rank) peers_.Send(gradient, stage);
    }
    at::Tensor sum;
    for (const int stage : shared.stages) {
      const at::Tensor part =
          stage == mesh_.pipeline.rank ? gradient : peers_.Receive(gradient, stage);
      sum = sum.defined() ? sum + part : part;
    }
    gradient.copy_(sum);
  }
}

std::vector<std::vector<at::Tensor>> Pipeline::CountedGradients() {
  std::vector<c10::Device> devices;
  std::vector<std::vector<at::Tensor>> gradients;
  for (const at::Tensor& parameter : parameters_) {
    const auto is_it = [&](const auto& shared) { return shared.tensor.is_same(parameter); };
    const auto shared = std::ranges::find_if(options_.shared, is_it);
    const bool elsewhere =
        shared != options_.shared.end() && shared->stages.front() != mesh_.pipeline.rank;
    if (elsewhere || !parameter.grad().defined()) continue;
    const auto place = static_cast<size_t>(
        std::ranges::find(devices, parameter.device()) - devices.begin());
    if (place == devices.size()) {
      devices.push_back(parameter.device());
      gradients.emplace_back();
    }
    gradients[place].push_back(parameter.grad());
  }
  return gradients;
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
  std::vector<at::Tensor> gradients = GradientsOf(parameters_);
  while (!gradients.empty()) {
    const c10::Device device = gradients[0].device();
    const auto rest = std::ranges::stable_partition(
        gradients, [&](const auto& gradient) { return gradient.device() == device; });
    const at::Tensor& there = norm.on_device();
    ClipTo(max_norm, there.defined() ? DeviceScalar(there.to(device)) : norm,
           {gradients.begin(), rest.begin()});
    gradients.erase(gradients.begin(), rest.begin());
  }
  return norm;
}

Evaluated Pipeline::EvaluateBatch(Model& model, const Batch& batch, bool with_outputs) {
  Evaluated found;
  for (Own& own : own_) {
    const auto& [index, begin, end, device] = own.stage;
    const c10::OptionalDeviceGuard guard(device);
    const Batch here = OnDevice(batch, device);
    const at::Tensor x = TakeInput(here, own);
    if (IsLast(own)) {
      model.GoOnFrom(begin, x, [&] {
        found = Strategy::EvaluateBatch(model, here, with_outputs);
        return found.loss;
      });
    } else {
      GiveForward(model.RunStages(here, begin, end, x), own);
    }
  }
  return found;
}

void Pipeline::NameState(StateVisitor& visitor) {
  const auto shared_as = [&](const at::Tensor& tensor) {
    return std::ranges::find_if(options_.shared,
                                [&](const auto& one) { return one.tensor.is_same(tensor); });
  };
  visitor.Section("model.", {}, Replicas());
  for (const auto& item : model_->named_parameters()) {
    if (shared_as(item.value()) == options_.shared.end()) visitor.Tensor(item.key(), item.value());
  }
  for (const auto& item : model_->named_buffers()) visitor.Tensor(item.key(), item.value());
  visitor.Section("optimizer.", {}, Replicas());
  optimizer_->NameState(visitor);
  if (options_.shared.empty()) return;
  // All are shared by the same stages: a model ties its last part to its first one.
  const std::vector<int>& stages = options_.shared.front().stages;
  const auto place = std::ranges::find(stages, mesh_.pipeline.rank) - stages.begin();
  const RankPart replicas{.rank = place * mesh_.data.size + mesh_.data.rank,
                          .size = static_cast<int64_t>(stages.size()) * mesh_.data.size};
  visitor.Section("model.", {}, replicas);
  for (const SharedParameter& shared : options_.shared) visitor.Tensor(shared.name, shared.tensor);
  visitor.Section("optimizer.", {}, replicas);
  shared_optimizer_->NameState(visitor);
}

}  // namespace

std::unique_ptr<Strategy> MakePipeline(std::shared_ptr<Model> model,
                                       std::unique_ptr<Optimizer> optimizer,
                                       std::unique_ptr<Optimizer> shared_optimizer,
                                       const Mesh& mesh,
                                       const PipelineOptions& options) {
  return std::make_unique<Pipeline>(std::move(model), std::move(optimizer),
                                    std::move(shared_optimizer), mesh, options);
}

}  // namespace ddprun::trainer

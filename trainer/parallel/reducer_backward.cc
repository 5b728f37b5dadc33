// The reducer while backward runs: gradients come, buckets leave, averages come back.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/any.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <chrono>
#include <utility>

#include "trainer/parallel/reducer.h"
#include "trainer/parallel/used_parameters.h"

namespace ddprun::trainer {

namespace {

// Adds the time of its own life to `sum`.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  double& sum_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

void Reducer::PrepareBackward(bool synchronize, std::span<const at::Tensor> outputs) {
  WaitForBuckets();
  const std::lock_guard lock(mutex_);
  synchronize_ = synchronize;
  // Both also undo a backward that ended in an exception.
  end_queued_ = false;
  next_to_launch_ = 0;
  next_to_settle_ = 0;
  for (Slot& slot : slots_) {
    slot.ready = false;
    slot.calls = 0;
  }
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.members.size();
    bucket.work.reset();
    bucket.finish = nullptr;
  }
  if (rebuild_ == Rebuild::kRecording) arrival_order_.clear();
  if (!synchronize) return;
  ++steps_;
  exposed_seconds_ = 0;
  prepared_at_ = std::chrono::steady_clock::now();
  if (options_.find_unused_parameters && !outputs.empty()) {
    std::vector<torch::autograd::Node*> accumulators;
    for (const auto& [key, accumulator] : hooks_) accumulators.push_back(accumulator.get());
    const std::vector<bool> reached = ReachedBy(outputs, accumulators);
    for (size_t index = 0; index < reached.size(); ++index) {
      if (!reached[index]) SetUnusedReady(index);
    }
    // Without any gradient to come nothing would call us back.
    if (std::find(reached.begin(), reached.end(), true) == reached.end()) {
      return Finish(options_.update_in_backward);
    }
  }
  for (size_t index = 0; index < slots_.size() && graph_known_; ++index) {
    if (slots_[index].expected_calls == 0) SetUnusedReady(index);
  }
  if (options_.SendsInBackward() && !FirstOfStaticGraph()) LaunchReady();
}

void Reducer::OnGradient(size_t index) {
  const std::lock_guard lock(mutex_);
  TakeGradient(index);
  Slot& slot = slots_[index];
  slot.used = true;
  ++slot.calls;
  if (!synchronize_ || slot.ready) return;
  if (!end_queued_) {
    end_queued_ = true;
    torch::autograd::Engine::get_default_engine().queue_callback([this] { OnBackwardEnd(); });
  }
  if (rebuild_ == Rebuild::kRecording && slot.calls == 1) arrival_order_.push_back(index);
  // A static graph's first backward tells how often each gradient comes.
  if (FirstOfStaticGraph() || slot.calls < slot.expected_calls) return;
  SetReady(index);
  if (options_.SendsInBackward()) LaunchReady();
  if (SettlesInBackward()) SettleCompleted();
}

// The first gradient of a step is a tensor of autograd's own; later micro-batches add to the
// view in place. Copying beats keeping the view defined: that would cost a zeroing and an
// addition instead.
void Reducer::TakeGradient(size_t index) {
  const at::Tensor& view = views_[index];
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  if (gradient.layout() != at::kStrided) {
    ThrowBadGradient(index, "has a sparse gradient, which cannot be reduced in buckets");
  }
  if (!gradient.is_alias_of(view)) {
    view.copy_(gradient);
    gradient = view;
  }
  if (options_.check_finite && !at::isfinite(view).all().item<bool>()) {
    ThrowBadGradient(index, "has a gradient with infinities or NaNs");
  }
}

void Reducer::SetReady(size_t index) {
  Slot& slot = slots_[index];
  slot.ready = true;
  --buckets_[slot.bucket].missing;
}

// For a parameter that gets no gradient in this backward; it may have one of earlier micro-batches.
void Reducer::SetUnusedReady(size_t index) {
  if (slots_[index].ready) return;
  if (parameters_[index].tensor.grad().defined()) {
    TakeGradient(index);
  } else {
    views_[index].zero_();
  }
  SetReady(index);
}

void Reducer::LaunchReady() {
  while (next_to_launch_ < buckets_.size() && buckets_[next_to_launch_].missing == 0) {
    // Where nothing is left to compute beside the last one, wait for it right here.
    const bool last = !options_.WaitsInStep() && next_to_launch_ + 1 == buckets_.size();
    if (options_.recorder != nullptr) {
      options_.recorder->SetBucket(static_cast<int>(next_to_launch_));
    }
    Launch(buckets_[next_to_launch_++], !last);
  }
}

void Reducer::Launch(Bucket& bucket, bool in_background) {
  double ignored = 0;
  const Stopwatch stopwatch(in_background ? ignored : exposed_seconds_);
  if (options_.comm_hook != nullptr) {
    CallHook(bucket, [&] { bucket.finish = options_.comm_hook->Start(bucket.gradients, *group_); });
    return;
  }
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  options.asyncOp = in_background;
  std::vector<at::Tensor> tensors = {bucket.gradients.flat};
  bucket.work = group_->allreduce(tensors, options);
}

// Whether buckets may be waited for before backward has ended. Not where it is not yet known
// which parameters any rank has used, nor with a hook: its end may be a collective, too.
bool Reducer::SettlesInBackward() const {
  return options_.update_in_backward && !options_.comm_hook && !options_.find_unused_parameters &&
         !FirstOfStaticGraph();
}

void Reducer::OnBackwardEnd() {
  const std::lock_guard lock(mutex_);
  end_queued_ = false;
  if (FirstOfStaticGraph()) {
    for (size_t index = 0; index < slots_.size(); ++index) {
      slots_[index].expected_calls = slots_[index].calls;
      if (slots_[index].calls > 0) SetReady(index);
    }
  }
  for (size_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].ready) continue;
    if (!options_.find_unused_parameters && !FirstOfStaticGraph()) ThrowMissingGradients();
    SetUnusedReady(index);
  }
  Finish(options_.update_in_backward);
}

void Reducer::Finish(const Ready& update) {
  // Buckets that are sent now go after this small collective, which is waited for here.
  const bool first = MayBeUnused() && !options_.SendsInBackward();
  if (first) FindUsed();
  LaunchReady();
  if (MayBeUnused() && !first) FindUsed();
  in_flight_ = options_.WaitsInStep();
  while (!in_flight_ && next_to_settle_ < buckets_.size()) {
    Settle(buckets_[next_to_settle_++], update);
  }
  for (Slot& slot : slots_) slot.used = false;
  if (options_.static_graph) graph_known_ = true;
  if (rebuild_ == Rebuild::kRecording) rebuild_ = Rebuild::kDue;
  if (!in_flight_) EndMeasurement();
}

void Reducer::SettleCompleted() {
  while (next_to_settle_ < next_to_launch_ && buckets_[next_to_settle_].work->isCompleted()) {
    Settle(buckets_[next_to_settle_++], options_.update_in_backward);
  }
}

// Waits for the bucket's averages and lets its parameters be updated.
void Reducer::Settle(Bucket& bucket, const Ready& update) {
  Wait(bucket);
  for (const size_t index : bucket.members) {
    if (!MayBeUnused()) break;
    at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
    if (used_by_any_[index] && !gradient.defined()) gradient = views_[index];
  }
  if (!update) return;
  const at::NoGradGuard no_grad;
  update(bucket.parameters);
}

void Reducer::Wait(Bucket& bucket) {
  const Stopwatch stopwatch(exposed_seconds_);
  if (const auto work = std::exchange(bucket.work, nullptr)) {
    work->wait();
  } else {
    CallHook(bucket, std::exchange(bucket.finish, nullptr));
  }
}

void Reducer::EndMeasurement() {
  step_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - prepared_at_).count();
}

void Reducer::WaitForBuckets(const Ready& ready) {
  const bool in_flight = std::exchange(in_flight_, false);
  const Ready& update = options_.update_in_backward ? Ready() : ready;
  for (Bucket& bucket : buckets_) {
    if (in_flight) {
      Settle(bucket, update);
    } else if (update) {
      update(bucket.parameters);
    }
  }
  if (in_flight) EndMeasurement();
}

// Whether any rank has used a parameter.
void Reducer::FindUsed() {
  if (graph_known_) return;
  const Stopwatch stopwatch(exposed_seconds_);
  at::Tensor flags = at::zeros({static_cast<int64_t>(slots_.size())}, at::kByte);
  uint8_t* data = flags.mutable_data_ptr<uint8_t>();
  for (size_t index = 0; index < slots_.size(); ++index) data[index] = slots_[index].used ? 1 : 0;
  std::vector<at::Tensor> tensors = {flags};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  options.asyncOp = false;
  group_->allreduce(tensors, options)->wait();
  used_by_any_.assign(data, data + slots_.size());
}

void Reducer::ShadowBackward() {
  PrepareBackward(true);
  {
    const std::lock_guard lock(mutex_);
    for (size_t index = 0; index < slots_.size(); ++index) {
      if (slots_[index].ready) continue;
      views_[index].zero_();
      SetReady(index);
    }
    Finish({});  // the others' parameters are not this rank's to update
  }
  WaitForBuckets();
}

}  // namespace ddprun::trainer

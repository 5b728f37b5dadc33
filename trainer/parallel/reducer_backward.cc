// The reducer while backward runs: it takes gradients, sends buckets, and receives averages.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/any.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <unordered_set>
#include <utility>

#include "trainer/parallel/reducer.h"
#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

namespace {

// Returns, for each accumulator (AccumulateGrad node of a parameter), whether backward from
// `outputs` reaches it. Walks the autograd graph once.
std::vector<bool> ReachedBy(std::span<const at::Tensor> outputs,
                            std::span<torch::autograd::Node* const> accumulators) {
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) {
      visit(torch::autograd::impl::gradient_edge(output).function.get());
    }
  }
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  std::vector<bool> reached;
  reached.reserve(accumulators.size());
  for (torch::autograd::Node* accumulator : accumulators) {
    reached.push_back(seen.contains(accumulator));
  }
  return reached;
}

}  // namespace

void Reducer::PrepareBackward(bool synchronize, std::span<const at::Tensor> outputs) {
  WaitForBuckets();
  const std::lock_guard lock(mutex_);
  buckets_.CheckUnchanged();
  synchronize_ = synchronize;
  expected_ = true;
  // These resets also clean up after a backward that ended in an exception.
  end_queued_ = false;
  next_to_launch_ = 0;
  next_to_settle_ = 0;
  readiness_.Begin();
  std::fill(flights_.begin(), flights_.end(), Flight());
  if (rebuild_ == Rebuild::kRecording) arrival_order_.clear();
  if (!synchronize) return;
  ++steps_;
  exposed_seconds_ = 0;
  prepared_at_ = std::chrono::steady_clock::now();
  if (options_.find_unused_parameters && !outputs.empty()) {
    const std::vector<bool> reached = ReachedBy(outputs, hooks_.accumulators());
    for (size_t index = 0; index < reached.size(); ++index) {
      if (!reached[index]) SetUnusedReady(index);
    }
    // If no gradient comes, no hook will call the reducer, so it finishes here.
    if (std::find(reached.begin(), reached.end(), true) == reached.end()) {
      return Finish(options_.update_in_backward);
    }
  }
  for (size_t index = 0; index < readiness_.size() && readiness_.graph_known(); ++index) {
    if (readiness_.has_no_gradient(index)) SetUnusedReady(index);
  }
  if (options_.SendsInBackward() && !readiness_.IsFirstOfStaticGraph()) LaunchReady();
}

void Reducer::OnGradient(size_t index) {
  // If a rank is lost, throws now, because the rest of this backward is useless.
  if (host_ != nullptr) host_->CheckRanks();
  const std::lock_guard lock(mutex_);
  if (!expected_) {
    ThrowBadGradient(index, "got a gradient that would not be averaged: no forward came before",
                     "Call the wrapped model, not its module, once before every backward; add up "
                     "several losses for\none backward. What is not to be averaged: no_sync().");
  }
  TakeGradient(index);
  const bool complete = readiness_.NoteGradient(index);
  if (!synchronize_ || readiness_.ready(index)) return;
  if (!end_queued_) {
    end_queued_ = true;
    torch::autograd::Engine::get_default_engine().queue_callback([this] { OnBackwardEnd(); });
  }
  if (rebuild_ == Rebuild::kRecording && readiness_.is_first_call(index)) {
    arrival_order_.push_back(index);
  }
  if (!complete) return;
  readiness_.SetReady(index);
  if (options_.SendsInBackward()) LaunchReady();
  if (SettlesInBackward()) SettleCompleted();
}

void Reducer::TakeGradient(size_t index) {
  if (buckets_.parameters()[index].tensor.grad().layout() != at::kStrided) {
    ThrowBadGradient(index, "has a sparse gradient, which cannot be reduced in buckets");
  }
  buckets_.Take(index);
  if (options_.check_finite && !at::isfinite(buckets_.views()[index]).all().item<bool>()) {
    ThrowBadGradient(index, "has a gradient with infinities or NaNs");
  }
}

// Marks a parameter as ready that gets no gradient in this backward. It may have a gradient of
// earlier micro-batches.
void Reducer::SetUnusedReady(size_t index) {
  if (readiness_.ready(index)) return;
  if (buckets_.parameters()[index].tensor.grad().defined()) {
    TakeGradient(index);
  } else {
    buckets_.views()[index].zero_();
  }
  readiness_.SetReady(index);
}

void Reducer::LaunchReady() {
  while (next_to_launch_ < flights_.size() && readiness_.full(next_to_launch_)) {
    // The last bucket is sent in the foreground, because nothing is left to compute meanwhile.
    const bool last = !options_.WaitsInStep() && next_to_launch_ + 1 == flights_.size();
    if (options_.recorder != nullptr) {
      options_.recorder->SetBucket(static_cast<int>(next_to_launch_));
    }
    Launch(next_to_launch_++, !last);
  }
}

void Reducer::Launch(size_t index, bool in_background) {
  double ignored = 0;
  const Stopwatch stopwatch(in_background ? ignored : exposed_seconds_);
  Bucket& bucket = buckets_.buckets()[index];
  Flight& flight = flights_[index];
  c10d::Backend& group = *mesh_.data.group;
  if (options_.comm_hook != nullptr) {
    CallHook(bucket, [&] { flight.finish = options_.comm_hook->Start(bucket.gradients, group); });
    return;
  }
  flight.work = BeginAllReduce(group, bucket.gradients.flat, c10d::ReduceOp::AVG, in_background);
}

// Returns whether the reducer may wait for buckets before backward has ended. It may not while it
// does not know which parameters any rank has used, nor with a hook, because the hook's finish may
// be a collective, too.
bool Reducer::SettlesInBackward() const {
  return options_.update_in_backward && !options_.comm_hook && !options_.find_unused_parameters &&
         !readiness_.IsFirstOfStaticGraph();
}

void Reducer::OnBackwardEnd() {
  const std::lock_guard lock(mutex_);
  end_queued_ = false;
  if (readiness_.IsFirstOfStaticGraph()) readiness_.EndFirstOfStaticGraph();
  for (size_t index = 0; index < readiness_.size(); ++index) {
    if (readiness_.ready(index)) continue;
    if (!options_.find_unused_parameters && !readiness_.IsFirstOfStaticGraph()) {
      ThrowMissingGradients();
    }
    SetUnusedReady(index);
  }
  Finish(options_.update_in_backward);
}

void Reducer::Finish(const Ready& update) {
  // If the buckets are sent now, this small collective goes first, because the reducer waits for it
  // here.
  const bool first = MayBeUnused() && !options_.SendsInBackward();
  if (first) FindUsed();
  LaunchReady();
  if (MayBeUnused() && !first) FindUsed();
  in_flight_ = options_.WaitsInStep();
  while (!in_flight_ && next_to_settle_ < flights_.size()) Settle(next_to_settle_++, update);
  readiness_.NoteSynchronised();
  expected_ = false;
  if (rebuild_ == Rebuild::kRecording) rebuild_ = Rebuild::kDue;
  if (!in_flight_) EndMeasurement();
}

void Reducer::SettleCompleted() {
  for (; next_to_settle_ < next_to_launch_; ++next_to_settle_) {
    const auto& work = flights_[next_to_settle_].work;
    if (work != nullptr && !work->isCompleted()) return;
    Settle(next_to_settle_, options_.update_in_backward);
  }
}

// Waits for the bucket's averages and calls `update` with its parameters.
void Reducer::Settle(size_t index, const Ready& update) {
  Wait(index);
  const Bucket& bucket = buckets_.buckets()[index];
  for (const size_t member : bucket.gradients.parameters) {
    if (!MayBeUnused()) break;
    at::Tensor& gradient = buckets_.parameters()[member].tensor.mutable_grad();
    if (used_by_any_[member] && !gradient.defined()) gradient = buckets_.views()[member];
  }
  if (!update) return;
  const at::NoGradGuard no_grad;
  update(bucket.parameters);
}

void Reducer::Wait(size_t index) {
  const Stopwatch stopwatch(exposed_seconds_);
  const Flight flight = std::exchange(flights_[index], Flight());
  if (flight.finish) return CallHook(buckets_.buckets()[index], flight.finish);
  if (flight.work != nullptr) flight.work->wait();
}

void Reducer::EndMeasurement() {
  step_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - prepared_at_).count();
}

void Reducer::WaitForBuckets(const Ready& ready) {
  const bool in_flight = std::exchange(in_flight_, false);
  const Ready& update = options_.update_in_backward ? Ready() : ready;
  for (size_t index = 0; index < flights_.size(); ++index) {
    if (in_flight) {
      Settle(index, update);
    } else if (update) {
      update(buckets_.buckets()[index].parameters);
    }
  }
  if (in_flight) EndMeasurement();
}

// Finds which parameters any rank has used. A collective.
void Reducer::FindUsed() {
  if (readiness_.graph_known()) return;
  const Stopwatch stopwatch(exposed_seconds_);
  at::Tensor flags = at::zeros({static_cast<int64_t>(readiness_.size())}, at::kByte);
  uint8_t* data = flags.mutable_data_ptr<uint8_t>();
  for (size_t index = 0; index < readiness_.size(); ++index) data[index] = readiness_.used(index);
  AllReduceOnHost(mesh_.control.get(), flags, c10d::ReduceOp::MAX);
  used_by_any_.assign(data, data + readiness_.size());
}

void Reducer::ShadowBackward() {
  PrepareBackward(true);
  {
    const std::lock_guard lock(mutex_);
    for (size_t index = 0; index < readiness_.size(); ++index) {
      if (readiness_.ready(index)) continue;
      buckets_.views()[index].zero_();
      readiness_.SetReady(index);
    }
    Finish({});  // no update: this rank has no gradients of its own
  }
  WaitForBuckets();
}

}  // namespace ddprun::trainer

#include "trainer/parallel/reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/any.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/parallel/gradient_errors.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

Reducer::Reducer(std::vector<NamedParameter> parameters, const Mesh& mesh, const Options& options)
    : mesh_(mesh),
      options_(options),
      host_(dynamic_cast<const HostProcessGroup*>(mesh_.data.group.get())),
      buckets_(std::move(parameters), mesh_.data.group),
      readiness_(buckets_.parameters().size(), options.static_graph),
      order_(buckets_.parameters().size()) {
  if (options_.update_in_backward && options_.WaitsInStep()) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "OPTIONS THAT DO NOT FIT",
                        .what = "Parameters are to be updated in backward, but the overlap waits "
                                "for their gradients after it.",
                        .hint = "Use overlap kBackward or kNone with update_in_backward.",
                        .page = "options-that-do-not-fit"});
  }
  // Begins with the reverse order, because backward runs through the model from its end.
  std::iota(order_.rbegin(), order_.rend(), size_t{0});
  Layout(options_.limits);
  for (size_t index = 0; index < order_.size(); ++index) {
    hooks_.Add(buckets_.parameters()[index].tensor, [this, index] { OnGradient(index); });
  }
}

void Reducer::Layout(const BucketLimits& limits) {
  const std::vector<std::vector<size_t>> plan = buckets_.Plan(order_, limits);
  buckets_.Layout(plan);
  readiness_.SetBuckets(plan);
  flights_ = std::vector<Flight>(plan.size());
}

void Reducer::RebuildIfDue() {
  WaitForBuckets();
  const std::lock_guard lock(mutex_);
  if (search_ && tuning() == nullptr && step_seconds_) {
    const double seconds = *std::exchange(step_seconds_, {});
    if (search_->Add(seconds, mesh_.control.get())) Layout(search_->limits());
  }
  if (rebuild_ != Rebuild::kDue) return;
  if (!options_.keep_order) {
    order_ = OrderOf(0, OrderOfArrival(arrival_order_, order_.size()));
    Layout(options_.limits);
  }
  EndRebuild();
}

// The buckets have their final order. Begins to search for their sizes, if this is wanted.
void Reducer::EndRebuild() {
  rebuild_ = Rebuild::kDone;
  if (!options_.tune_limits) return;
  step_seconds_.reset();
  search_.emplace(TrialsOf(buckets_, order_));
  Layout(search_->limits());
}

void Reducer::BeginStep() {
  buckets_.DropGradients();
  RebuildIfDue();
}

std::vector<at::Tensor> Reducer::TakeLocalGradients() {
  for (size_t index = 0; index < buckets_.views().size(); ++index) {
    if (!buckets_.parameters()[index].tensor.grad().defined()) buckets_.views()[index].zero_();
  }
  buckets_.DropGradients();
  return FlatGradients();
}

// Returns the order that rank `rank` passes as `own`. A collective.
std::vector<size_t> Reducer::OrderOf(int rank, const std::vector<size_t>& own) {
  const int64_t count = static_cast<int64_t>(order_.size());
  at::Tensor order = at::empty({count}, at::kLong);
  int64_t* data = order.mutable_data_ptr<int64_t>();
  std::ranges::copy(own, data);
  std::vector<at::Tensor> tensors = {order};
  c10d::BroadcastOptions options;
  options.rootRank = rank;
  mesh_.control->broadcast(tensors, options)->wait();
  return {data, data + count};
}

void Reducer::Rejoin(int giver) {
  const std::lock_guard lock(mutex_);
  buckets_.DropGradients();
  readiness_.Forget();
  in_flight_ = false;
  // A rank is replaced only after the first synchronised backward, so each old rank knows an order.
  const bool known = rebuild_ == Rebuild::kDone;
  const std::vector<size_t> own = known ? order_ : OrderOfArrival(arrival_order_, order_.size());
  const std::vector<size_t> order = OrderOf(giver, own);
  // Correct buckets keep their memory, because new pages cost time.
  const bool stays = known && order == order_ && !options_.tune_limits;
  order_ = order;
  if (!stays) Layout(options_.limits);
  EndRebuild();
}

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
    const std::vector<bool> reached = hooks_.ReachedFrom(outputs);
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
    ThrowBadGradient(
        index, "got a gradient that would not be averaged: no forward came before",
        "Call the wrapped model, not its module, once before every backward; add up "
        "several losses for\none backward. Use no_sync() for gradients that must not be averaged.");
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
    CallHook(index, [&] { flight.finish = options_.comm_hook->Start(bucket.gradients, group); });
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
  // This small collective goes before buckets that are sent now, because the reducer waits for it.
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
  if (flight.finish) return CallHook(index, flight.finish);
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

void Reducer::NameState(StateVisitor& visitor) const {
  if (options_.comm_hook) options_.comm_hook->NameState(buckets_.parameters(), visitor);
}

// Calls a user's hook, and adds the place to any exception that it throws.
void Reducer::CallHook(size_t bucket, const std::function<void()>& call) const {
  try {
    call();
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& exception) {
    throw HookFailed(Where(), bucket, buckets_.Names()[bucket], exception.what());
  }
}

void Reducer::ThrowMissingGradients() const {
  std::vector<std::string> missing;
  for (size_t index = 0; index < readiness_.size(); ++index) {
    if (!readiness_.ready(index)) missing.push_back(buckets_.parameters()[index].name);
  }
  throw MissingGradients(Where(), missing, readiness_.size(), "set find_unused_parameters.");
}

void Reducer::ThrowBadGradient(size_t index, const char* what, const char* hint) const {
  throw BadGradient(Where(), buckets_.parameters()[index].name + " " + what + ".", hint);
}

std::string Reducer::Where() const {
  return "rank " + std::to_string(mesh_.data.rank) + ", step " + std::to_string(steps_);
}

}  // namespace ddprun::trainer

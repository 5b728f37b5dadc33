#include "trainer/parallel/reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/any.h>
#include <ATen/ops/isfinite.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <utility>

#include "trainer/parallel/gradient_errors.h"
#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

Reducer::Reducer(std::vector<NamedParameter> parameters, const Mesh& mesh, const Options& options)
    : mesh_(mesh),
      options_(options),
      host_(dynamic_cast<const HostProcessGroup*>(mesh_.data.group.get())),
      buckets_(std::move(parameters), mesh_.data.group),
      readiness_(buckets_.parameters().size(), options.static_graph),
      layout_(buckets_.parameters().size(), options, mesh_),
      flights_(mesh_.data.group, options.comm_hook, [this] { return Where(); }) {
  if (options_.update_in_backward && options_.WaitsInStep()) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "OPTIONS THAT DO NOT FIT",
                        .what = "Parameters are to be updated in backward, but the overlap waits "
                                "for their gradients after it.",
                        .hint = "Use overlap kBackward or kNone with update_in_backward.",
                        .page = "options-that-do-not-fit"});
  }
  MakeBuckets();
  for (size_t index = 0; index < readiness_.size(); ++index) {
    hooks_.Add(buckets_.parameters()[index].tensor, [this, index] { OnGradient(index); });
  }
}

void Reducer::MakeBuckets() {
  const std::vector<std::vector<size_t>> plan = buckets_.Plan(layout_.order(), layout_.limits());
  buckets_.Layout(plan);
  readiness_.SetBuckets(plan);
  flights_.Reset(plan.size());
}

void Reducer::RebuildIfDue() {
  WaitForBuckets();
  const std::lock_guard lock(mutex_);
  if (layout_.Update(buckets_)) MakeBuckets();
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

void Reducer::Rejoin(int giver) {
  const std::lock_guard lock(mutex_);
  buckets_.DropGradients();
  readiness_.Forget();
  in_flight_ = false;
  if (layout_.Rejoin(giver, buckets_)) MakeBuckets();
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
  flights_.Reset(flights_.size());
  layout_.BeginBackward(synchronize);
  if (!synchronize) return;
  ++steps_;
  exposed_seconds_ = 0;
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
  const std::string& name = buckets_.parameters()[index].name;
  if (!expected_) throw GradientWithoutForward(Where(), name);
  // The bucket may be on its way, without this gradient.
  if (synchronize_ && readiness_.ready(index)) throw LateGradient(Where(), name);
  TakeGradient(index);
  const bool complete = readiness_.NoteGradient(index);
  if (!synchronize_) return;
  if (!end_queued_) {
    end_queued_ = true;
    torch::autograd::Engine::get_default_engine().queue_callback([this] { OnBackwardEnd(); });
  }
  if (readiness_.is_first_call(index)) layout_.NoteGradient(index);
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
    double ignored = 0;
    const Stopwatch stopwatch(last ? exposed_seconds_ : ignored);
    flights_.Launch(buckets_, next_to_launch_++, /*in_background=*/!last);
  }
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
  layout_.EndBackward();
  if (!in_flight_) layout_.EndAverages();
}

void Reducer::SettleCompleted() {
  for (; next_to_settle_ < next_to_launch_; ++next_to_settle_) {
    if (!flights_.IsCompleted(next_to_settle_)) return;
    Settle(next_to_settle_, options_.update_in_backward);
  }
}

// Waits for the bucket's averages and calls `update` with its parameters.
void Reducer::Settle(size_t index, const Ready& update) {
  {
    const Stopwatch stopwatch(exposed_seconds_);
    flights_.Wait(buckets_, index);
  }
  if (MayBeUnused()) used_.ShowAverages(buckets_, index);
  if (!update) return;
  const at::NoGradGuard no_grad;
  update(buckets_.buckets()[index].parameters);
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
  if (in_flight) layout_.EndAverages();
}

void Reducer::FindUsed() {
  const Stopwatch stopwatch(exposed_seconds_);
  used_.Find(readiness_, mesh_.control.get());
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

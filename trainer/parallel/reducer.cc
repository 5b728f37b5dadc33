#include "trainer/parallel/reducer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "base/failure.h"

namespace ddprun::trainer {

namespace {

// Returns the order of all parameters. Parameters without a gradient in the first backward are
// last, so that no other gradient waits for them.
std::vector<size_t> OrderOfArrival(std::vector<size_t> arrived, size_t parameters) {
  std::vector<bool> came(parameters, false);
  for (const size_t index : arrived) came[index] = true;
  for (size_t index = 0; index < parameters; ++index) {
    if (!came[index]) arrived.push_back(index);
  }
  return arrived;
}

}  // namespace

Reducer::Reducer(std::vector<NamedParameter> parameters, const Mesh& mesh, const Options& options)
    : mesh_(mesh),
      options_(options),
      host_(dynamic_cast<const HostProcessGroup*>(mesh_.data.group.get())),
      buckets_(std::move(parameters), mesh_.data.group),
      readiness_(buckets_.parameters().size(), options.static_graph),
      order_(buckets_.parameters().size()) {
  CheckOptions();
  // Begins with the reverse order, because backward runs through the model from its end.
  std::iota(order_.rbegin(), order_.rend(), size_t{0});
  Layout(options_.limits);
  for (size_t index = 0; index < order_.size(); ++index) {
    hooks_.Add(buckets_.parameters()[index].tensor, [this, index] { OnGradient(index); });
  }
}

Reducer::~Reducer() = default;

void Reducer::CheckOptions() const {
  if (!options_.update_in_backward || !options_.WaitsInStep()) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "OPTIONS THAT DO NOT FIT",
                      .what = "Parameters are to be updated in backward, but the overlap waits for "
                              "their gradients after it.",
                      .hint = "Use overlap kBackward or kNone with update_in_backward.",
                      .page = "options-that-do-not-fit"});
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
  if (tuner_) return Tune();
  if (rebuild_ != Rebuild::kDue) return;
  if (!options_.keep_order) {
    order_ = OrderOf(0, OrderOfArrival(arrival_order_, order_.size()));
    Layout(options_.limits);
  }
  rebuild_ = Rebuild::kDone;
  if (options_.tune_limits) StartTuning();
}

void Reducer::BeginStep() {
  DropGradients();
  RebuildIfDue();
}

void Reducer::DropGradients() {
  for (const NamedParameter& parameter : buckets_.parameters()) {
    parameter.tensor.mutable_grad().reset();
  }
}

std::vector<at::Tensor> Reducer::TakeLocalGradients() {
  for (size_t index = 0; index < buckets_.views().size(); ++index) {
    if (!buckets_.parameters()[index].tensor.grad().defined()) buckets_.views()[index].zero_();
  }
  DropGradients();
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
  DropGradients();
  readiness_.Forget();
  in_flight_ = false;
  // A rank can be replaced only after the first synchronised backward, so each old rank knows an
  // order.
  const bool known = rebuild_ == Rebuild::kDone;
  const std::vector<size_t> own = known ? order_ : OrderOfArrival(arrival_order_, order_.size());
  const std::vector<size_t> order = OrderOf(giver, own);
  // Correct buckets keep their memory, because new pages cost time.
  const bool stays = known && order == order_ && !options_.tune_limits;
  order_ = order;
  rebuild_ = Rebuild::kDone;
  if (!stays) Layout(options_.limits);
  tuner_.reset();
  tuning_ = {};
  if (options_.tune_limits) StartTuning();
}

std::vector<at::Tensor> Reducer::FlatGradients() const {
  std::vector<at::Tensor> result;
  result.reserve(buckets_.buckets().size());
  for (const Bucket& bucket : buckets_.buckets()) result.push_back(bucket.gradients.flat);
  return result;
}

void Reducer::NameState(StateVisitor& visitor) const {
  if (options_.comm_hook) options_.comm_hook->NameState(buckets_.parameters(), visitor);
}

std::vector<std::vector<std::string>> Reducer::BucketNames() const {
  std::vector<std::vector<std::string>> result;
  for (const Bucket& bucket : buckets_.buckets()) {
    std::vector<std::string>& names = result.emplace_back();
    for (const size_t index : bucket.gradients.parameters)
      names.push_back(buckets_.parameters()[index].name);
  }
  return result;
}

}  // namespace ddprun::trainer

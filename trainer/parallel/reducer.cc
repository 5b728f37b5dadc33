#include "trainer/parallel/reducer.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <numeric>

#include "base/check.h"
#include "base/failure.h"

namespace ddprun::trainer {

namespace {

class PostHook : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  const std::function<void()> call_;
};

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

Reducer::Reducer(std::vector<NamedParameter> parameters,
                 c10::intrusive_ptr<c10d::Backend> group,
                 const Options& options)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      options_(options),
      came_(parameters_.size(), false) {
  // Backward runs through the model from its end, so that is the first guess.
  std::vector<size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  Layout(order);
  for (size_t index = 0; index < parameters_.size(); ++index) InstallHook(index);
}

Reducer::~Reducer() {
  for (auto& [key, accumulator] : hooks_) accumulator->del_post_hook(key);
}

void Reducer::InstallHook(size_t index) {
  std::shared_ptr<torch::autograd::Node> accumulator =
      torch::autograd::impl::grad_accumulator(parameters_[index].tensor);
  DDPRUN_CHECK(accumulator != nullptr);
  const uintptr_t key =
      accumulator->add_post_hook(std::make_unique<PostHook>([this, index] { OnGradient(index); }));
  // A variable holds its accumulator weakly; the hook must live as long as we do.
  hooks_.emplace_back(key, std::move(accumulator));
}

void Reducer::Layout(const std::vector<size_t>& order) {
  std::vector<GradientSize> sizes;
  sizes.reserve(parameters_.size());
  for (const NamedParameter& parameter : parameters_) {
    sizes.push_back({static_cast<int64_t>(parameter.tensor.nbytes()),
                     static_cast<int>(parameter.tensor.scalar_type())});
  }
  buckets_.clear();
  slots_.assign(parameters_.size(), Slot{});  // the last references to the old buckets
  for (std::vector<size_t>& members : PlanBuckets(sizes, order, options_.limits)) {
    int64_t elements = 0;
    for (const size_t index : members) elements += parameters_[index].tensor.numel();
    const at::TensorOptions type = parameters_[members[0]].tensor.options().requires_grad(false);
    const at::Tensor flat = group_->supportsTensorAlloc(type.device().index())
                                ? group_->allocateTensor(elements, type)
                                : at::zeros({elements}, type);
    int64_t offset = 0;
    for (const size_t index : members) {
      const at::Tensor& parameter = parameters_[index].tensor;
      slots_[index] = {buckets_.size(),
                       flat.narrow(0, offset, parameter.numel()).view(parameter.sizes())};
      offset += parameter.numel();
    }
    buckets_.push_back({std::move(members), flat, 0, nullptr});
  }
}

void Reducer::BeginStep() {
  for (const NamedParameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  const std::lock_guard lock(mutex_);
  if (rebuild_ != Rebuild::kDue) return;
  Layout(OrderOfRankZero());
  rebuild_ = Rebuild::kDone;
}

std::vector<size_t> Reducer::OrderOfRankZero() {
  const int64_t count = static_cast<int64_t>(parameters_.size());
  at::Tensor order = at::empty({count}, at::kLong);
  int64_t* data = order.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < arrival_order_.size(); ++i)
    data[i] = static_cast<int64_t>(arrival_order_[i]);
  std::vector<at::Tensor> tensors = {order};
  group_->broadcast(tensors, c10d::BroadcastOptions{})->wait();
  return {data, data + count};
}

void Reducer::PrepareBackward(bool synchronize) {
  const std::lock_guard lock(mutex_);
  synchronize_ = synchronize;
  // Both also undo a backward that ended in an exception.
  end_queued_ = false;
  next_to_launch_ = 0;
  came_.assign(parameters_.size(), false);
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.members.size();
    bucket.work = nullptr;
  }
  if (rebuild_ == Rebuild::kRecording) arrival_order_.clear();
  if (synchronize) exposed_seconds_ = 0;
}

void Reducer::OnGradient(size_t index) {
  const std::lock_guard lock(mutex_);
  const at::Tensor& parameter = parameters_[index].tensor;
  Slot& slot = slots_[index];
  // The first gradient of a step is a tensor of autograd's own; later micro-batches add to the
  // view in place. Copying beats keeping the view defined: that would cost a zeroing and an
  // addition instead.
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.is_alias_of(slot.view)) {
    slot.view.copy_(gradient);
    gradient = slot.view;
  }
  if (!synchronize_ || came_[index]) return;
  if (!end_queued_) {
    end_queued_ = true;
    torch::autograd::Engine::get_default_engine().queue_callback([this] { OnBackwardEnd(); });
  }
  came_[index] = true;
  if (rebuild_ == Rebuild::kRecording) arrival_order_.push_back(index);
  --buckets_[slot.bucket].missing;
  if (options_.overlap) LaunchReady();
}

void Reducer::LaunchReady() {
  while (next_to_launch_ < buckets_.size() && buckets_[next_to_launch_].missing == 0) {
    // Nothing is left to compute beside the last one: wait for it right here.
    const bool last = next_to_launch_ + 1 == buckets_.size();
    Launch(buckets_[next_to_launch_++], !last);
  }
}

void Reducer::Launch(Bucket& bucket, bool in_background) {
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  options.asyncOp = in_background;
  std::vector<at::Tensor> tensors = {bucket.flat};
  double ignored = 0;
  const Stopwatch stopwatch(in_background ? ignored : exposed_seconds_);
  bucket.work = group_->allreduce(tensors, options);
}

void Reducer::OnBackwardEnd() {
  const std::lock_guard lock(mutex_);
  end_queued_ = false;
  for (const Bucket& bucket : buckets_) {
    if (bucket.missing > 0) ThrowMissingGradients();
  }
  if (!options_.overlap) LaunchReady();
  const Stopwatch stopwatch(exposed_seconds_);
  for (Bucket& bucket : buckets_) bucket.work->wait();
  if (rebuild_ == Rebuild::kRecording) rebuild_ = Rebuild::kDue;
}

void Reducer::ThrowMissingGradients() const {
  constexpr size_t kNamed = 10;
  std::string names;
  size_t missing = 0;
  for (size_t index = 0; index < parameters_.size(); ++index) {
    if (came_[index]) continue;
    if (++missing <= kNamed) names += "\n    " + parameters_[index].name;
  }
  if (missing > kNamed) names += "\n    and " + std::to_string(missing - kNamed) + " more";
  throw Failure(Error{.code = Code::kFailed,
                      .title = "PARAMETERS WITHOUT GRADIENT",
                      .where = "rank " + std::to_string(group_->getRank()),
                      .what = "backward() ended, but " + std::to_string(missing) + " of " +
                              std::to_string(parameters_.size()) +
                              " parameters got no gradient:" + names,
                      .hint = "Every parameter must take part in the loss; freeze those that do "
                              "not (requires_grad_(false)) before the model is wrapped.",
                      .page = "parameters-without-gradient"});
}

std::vector<at::Tensor> Reducer::FlatGradients() const {
  std::vector<at::Tensor> result;
  result.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) result.push_back(bucket.flat);
  return result;
}

std::vector<std::vector<std::string>> Reducer::BucketNames() const {
  std::vector<std::vector<std::string>> result;
  for (const Bucket& bucket : buckets_) {
    std::vector<std::string>& names = result.emplace_back();
    for (const size_t index : bucket.members) names.push_back(parameters_[index].name);
  }
  return result;
}

}  // namespace ddprun::trainer

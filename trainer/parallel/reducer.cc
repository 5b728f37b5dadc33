#include "trainer/parallel/reducer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
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

// A part of `flat` that autograd does not know as a view: torch::optim's zero_grad(false) cannot
// detach those.
at::Tensor PartOf(const at::Tensor& flat, int64_t offset, at::IntArrayRef sizes) {
  at::Tensor part = at::empty({0}, flat.options());
  part.set_(flat.storage(), flat.storage_offset() + offset, sizes, c10::contiguous_strides(sizes));
  return part;
}

}  // namespace

Reducer::Reducer(std::vector<NamedParameter> parameters,
                 c10::intrusive_ptr<c10d::Backend> group,
                 const Options& options)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      options_(options),
      views_(parameters_.size()),
      slots_(parameters_.size()),
      order_(parameters_.size()),
      limits_(options.limits) {
  CheckOptions();
  CheckParameters();
  // Backward runs through the model from its end, so that is the first guess.
  std::iota(order_.rbegin(), order_.rend(), size_t{0});
  Layout();
  for (size_t index = 0; index < parameters_.size(); ++index) InstallHook(index);
}

Reducer::~Reducer() {
  for (auto& [key, accumulator] : hooks_) accumulator->del_post_hook(key);
}

void Reducer::CheckOptions() const {
  if (!options_.update_in_backward || !options_.WaitsInStep()) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "OPTIONS THAT DO NOT FIT",
                      .where = "",
                      .what = "Parameters are to be updated in backward, but the overlap waits for "
                              "their gradients after it.",
                      .hint = "Use overlap kBackward or kNone with update_in_backward.",
                      .page = "options-that-do-not-fit"});
}

void Reducer::CheckParameters() const {
  for (const NamedParameter& parameter : parameters_) {
    const at::Tensor& tensor = parameter.tensor;
    const at::Device wanted = parameters_[0].tensor.device();
    if (tensor.device() == wanted && tensor.layout() == at::kStrided) continue;
    throw Failure(Error{.code = Code::kFailed,
                        .title = "BAD PARAMETER",
                        .where = parameter.name,
                        .what = parameter.name + " is a " + c10::str(tensor.layout()) +
                                " tensor on " + tensor.device().str() + "; " + parameters_[0].name +
                                " is on " + wanted.str() + ".",
                        .hint = "All parameters of the model must be dense and on one device.",
                        .page = "bad-parameter"});
  }
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

std::vector<GradientSize> Reducer::Sizes() const {
  std::vector<GradientSize> sizes;
  sizes.reserve(parameters_.size());
  for (const NamedParameter& parameter : parameters_) {
    sizes.push_back({static_cast<int64_t>(parameter.tensor.nbytes()),
                     static_cast<int>(parameter.tensor.scalar_type())});
  }
  return sizes;
}

void Reducer::Layout() {
  buckets_.clear();
  for (at::Tensor& view : views_) view.reset();  // the last references to the old buckets
  for (std::vector<size_t>& members : PlanBuckets(Sizes(), order_, limits_)) {
    AddBucket(std::move(members));
  }
  if (!buckets_.empty()) buckets_.back().gradients.last = true;
}

void Reducer::AddBucket(std::vector<size_t> members) {
  int64_t elements = 0;
  for (const size_t index : members) elements += parameters_[index].tensor.numel();
  const at::TensorOptions type = parameters_[members[0]].tensor.options().requires_grad(false);
  const at::Tensor flat = group_->supportsTensorAlloc(type.device().index())
                              ? group_->allocateTensor(elements, type)
                              : at::zeros({elements}, type);
  int64_t offset = 0;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> views;
  for (const size_t index : members) {
    const at::Tensor& parameter = parameters_[index].tensor;
    parameters.push_back(parameter);
    slots_[index].bucket = buckets_.size();
    views_[index] = PartOf(flat, offset, parameter.sizes());
    views.push_back(views_[index]);
    offset += parameter.numel();
  }
  buckets_.push_back(
      {.members = std::move(members),
       .parameters = std::move(parameters),
       .gradients = {.index = buckets_.size(), .flat = flat, .gradients = std::move(views)}});
}

void Reducer::RebuildIfDue() {
  WaitForBuckets();
  const std::lock_guard lock(mutex_);
  if (tuner_) return Tune();
  if (rebuild_ != Rebuild::kDue) return;
  order_ = OrderOfRankZero();
  Layout();
  rebuild_ = Rebuild::kDone;
  if (options_.tune_limits) StartTuning();
}

void Reducer::BeginStep() {
  for (const NamedParameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  RebuildIfDue();
}

std::vector<size_t> Reducer::OrderOfRankZero() {
  const int64_t count = static_cast<int64_t>(parameters_.size());
  at::Tensor order = at::empty({count}, at::kLong);
  int64_t* data = order.mutable_data_ptr<int64_t>();
  // What did not come in the first backward may come in a later one: nobody should wait for it.
  std::vector<bool> came(parameters_.size(), false);
  for (const size_t index : arrival_order_) came[index] = true;
  for (size_t index = 0; index < came.size(); ++index) {
    if (!came[index]) arrival_order_.push_back(index);
  }
  std::copy(arrival_order_.begin(), arrival_order_.end(), data);
  std::vector<at::Tensor> tensors = {order};
  group_->broadcast(tensors, c10d::BroadcastOptions{})->wait();
  return {data, data + count};
}

std::vector<at::Tensor> Reducer::FlatGradients() const {
  std::vector<at::Tensor> result;
  result.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) result.push_back(bucket.gradients.flat);
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

#include "trainer/parallel/gradient_buckets.h"

#include <ATen/ops/empty.h>
#include <c10/util/strides.h>

#include <utility>

#include "trainer/parallel/gradient_errors.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

at::Tensor PartOf(const at::Tensor& flat, int64_t offset, at::IntArrayRef sizes) {
  at::Tensor part = at::empty({0}, flat.options());
  part.set_(flat.storage(), flat.storage_offset() + offset, sizes, c10::contiguous_strides(sizes));
  return part;
}

namespace {

void Check(const std::vector<NamedParameter>& parameters) {
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    const at::Device wanted = parameters[0].tensor.device();
    if (tensor.device() == wanted && tensor.layout() == at::kStrided) continue;
    throw BadParameter(parameter, parameters[0]);
  }
}

}  // namespace

GradientBuckets::GradientBuckets(std::vector<NamedParameter> parameters,
                                 c10::intrusive_ptr<c10d::Backend> group)
    : parameters_(std::move(parameters)), group_(std::move(group)), views_(parameters_.size()) {
  Check(parameters_);
}

std::vector<std::vector<size_t>> GradientBuckets::Plan(std::span<const size_t> order,
                                                       const BucketLimits& limits) const {
  std::vector<GradientSize> sizes;
  sizes.reserve(parameters_.size());
  for (const NamedParameter& parameter : parameters_) {
    sizes.push_back({static_cast<int64_t>(parameter.tensor.nbytes()),
                     static_cast<int>(parameter.tensor.scalar_type())});
  }
  return PlanBuckets(sizes, order, limits);
}

void GradientBuckets::Layout(const std::vector<std::vector<size_t>>& plan) {
  buckets_.clear();
  for (at::Tensor& view : views_) view.reset();  // the last references to the old buckets
  for (const std::vector<size_t>& members : plan) AddBucket(members);
  if (!buckets_.empty()) buckets_.back().gradients.last = true;
}

void GradientBuckets::CheckUnchanged() const {
  for (size_t index = 0; index < parameters_.size(); ++index) {
    const at::Tensor& tensor = parameters_[index].tensor;
    const at::Tensor& view = views_[index];
    const bool unchanged = tensor.scalar_type() == view.scalar_type() &&
                           tensor.sizes() == view.sizes() && tensor.device() == view.device();
    if (!unchanged) throw ChangedParameter(parameters_[index], view);
  }
}

void GradientBuckets::AddBucket(const std::vector<size_t>& members) {
  int64_t elements = 0;
  for (const size_t index : members) elements += parameters_[index].tensor.numel();
  const at::TensorOptions type = parameters_[members[0]].tensor.options().requires_grad(false);
  const at::Tensor flat = MakeFlat(*group_, elements, type);
  Bucket bucket{.gradients = {.index = buckets_.size(), .flat = flat, .parameters = members},
                .parameters = {}};
  int64_t offset = 0;
  for (const size_t index : members) {
    const at::Tensor& parameter = parameters_[index].tensor;
    views_[index] = PartOf(flat, offset, parameter.sizes());
    bucket.parameters.push_back(parameter);
    bucket.gradients.gradients.push_back(views_[index]);
    offset += parameter.numel();
  }
  buckets_.push_back(std::move(bucket));
}

// The first gradient of a step is a tensor of autograd's own; later micro-batches add to the view
// in place. Copying is faster than a view that stays defined, because such a view costs a zeroing
// and an addition.
void GradientBuckets::Take(size_t index) {
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  if (gradient.is_alias_of(views_[index])) return;
  views_[index].copy_(gradient);
  gradient = views_[index];
}

void GradientBuckets::DropGradients() {
  for (const NamedParameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

std::vector<at::Tensor> GradientBuckets::Flat() const {
  std::vector<at::Tensor> result;
  for (const Bucket& bucket : buckets_) result.push_back(bucket.gradients.flat);
  return result;
}

std::vector<std::vector<std::string>> GradientBuckets::Names() const {
  std::vector<std::vector<std::string>> result(buckets_.size());
  for (const Bucket& bucket : buckets_) {
    for (const size_t member : bucket.gradients.parameters) {
      result[bucket.gradients.index].push_back(parameters_[member].name);
    }
  }
  return result;
}

}  // namespace ddprun::trainer

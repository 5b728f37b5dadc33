#include "trainer/compute/weight_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "trainer/compute/precision.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kAlignment = 64;  // numbers
// Backward frees a buffer after the last of its weights, so a buffer has about one layer.
constexpr int64_t kNumbersOfBuffer = int64_t{4} << 20;

thread_local const WeightCopies* scope_of_copies = nullptr;

int64_t SpaceOf(const at::Tensor& weight) {
  return (weight.numel() + kAlignment - 1) / kAlignment * kAlignment;
}

// Appends a view of one new buffer for each weight.
void AddViews(std::span<const at::Tensor> weights,
              at::ScalarType type,
              std::vector<at::Tensor>& views) {
  if (weights.empty()) return;
  int64_t numbers = 0;
  for (const at::Tensor& weight : weights) numbers += SpaceOf(weight);
  const at::Tensor buffer = at::empty({numbers}, at::device(weights[0].device()).dtype(type));
  int64_t begin = 0;
  for (const at::Tensor& weight : weights) {
    views.push_back(buffer.narrow(0, begin, weight.numel()).view(weight.sizes()));
    begin += SpaceOf(weight);
  }
}

}  // namespace

WeightCopies::WeightCopies(std::span<const at::Tensor> weights)
    : before_(scope_of_copies), type_(ComputeType()) {
  scope_of_copies = this;
  if (type_ == at::kFloat || !at::GradMode::is_enabled()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sources;
  for (const at::Tensor& weight : weights) {
    if (weight.is_cuda() && weight.scalar_type() == at::kFloat) sources.push_back(weight);
  }
  if (sources.empty()) return;
  const std::vector<at::Tensor> in_order = sources;
  const auto is_matrix = [](const at::Tensor& weight) { return weight.dim() > 1; };
  const auto vectors = std::stable_partition(sources.begin(), sources.end(), is_matrix);
  const std::span matrices(sources.begin(), vectors);
  std::vector<at::Tensor> views;
  size_t begin = 0;
  int64_t numbers = 0;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (numbers >= kNumbersOfBuffer && matrices[i].sizes() != matrices[i - 1].sizes()) {
      AddViews(matrices.subspan(begin, i - begin), type_, views);
      begin = i;
      numbers = 0;
    }
    numbers += SpaceOf(matrices[i]);
  }
  AddViews(matrices.subspan(begin), type_, views);
  AddViews({vectors, sources.end()}, type_, views);
  for (size_t i = 0; i < views.size(); ++i) {
    copies_.emplace(sources[i].unsafeGetTensorImpl(), views[i]);
  }
  // Large and small ones mixed: a kernel takes a limited number of tensors and of pieces.
  std::vector<at::Tensor> copies;
  for (const at::Tensor& weight : in_order) {
    copies.push_back(copies_.at(weight.unsafeGetTensorImpl()));
  }
  at::_foreach_copy_(copies, in_order);
}

WeightCopies::~WeightCopies() {
  scope_of_copies = before_;
}

at::Tensor InTypeOfProducts(const at::Tensor& weight) {
  const at::ScalarType type = ComputeType(weight.scalar_type());
  if (scope_of_copies != nullptr && scope_of_copies->type_ == type) {
    const auto found = scope_of_copies->copies_.find(weight.unsafeGetTensorImpl());
    if (found != scope_of_copies->copies_.end()) return found->second;
  }
  return weight.to(type);
}

at::Tensor JoinInTypeOfProducts(at::TensorList weights) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& weight : weights) copies.push_back(InTypeOfProducts(weight));
  if (copies.size() == 1) return copies[0];
  std::vector<int64_t> sizes = copies[0].sizes().vec();
  sizes[0] = 0;
  int64_t end = copies[0].storage_offset();
  bool are_neighbours = true;
  for (const at::Tensor& copy : copies) {
    are_neighbours = are_neighbours && copy.is_contiguous() && copy.storage_offset() == end &&
                     copy.is_alias_of(copies[0]);
    end += copy.numel();
    sizes[0] += copy.size(0);
  }
  return are_neighbours ? copies[0].as_strided(sizes, copies[0].strides()) : at::cat(copies);
}

}  // namespace ddprun::trainer

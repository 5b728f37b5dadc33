#include "trainer/parallel/used_parameters.h"

#include <ATen/ops/zeros.h>

#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

void UsedParameters::Find(const GradientReadiness& own, c10d::Backend* control) {
  if (own.graph_known()) return;
  at::Tensor flags = at::zeros({static_cast<int64_t>(own.size())}, at::kByte);
  uint8_t* data = flags.mutable_data_ptr<uint8_t>();
  for (size_t index = 0; index < own.size(); ++index) data[index] = own.used(index);
  AllReduceOnHost(control, flags, c10d::ReduceOp::MAX);
  by_any_.assign(data, data + own.size());
}

void UsedParameters::ShowAverages(const GradientBuckets& buckets, size_t bucket) const {
  for (const size_t member : buckets.buckets()[bucket].gradients.parameters) {
    at::Tensor& gradient = buckets.parameters()[member].tensor.mutable_grad();
    if (by_any_[member] && !gradient.defined()) gradient = buckets.views()[member];
  }
}

}  // namespace ddprun::trainer

// How far two tensors are apart.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::trainer {

inline double LargestDifference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace ddprun::trainer

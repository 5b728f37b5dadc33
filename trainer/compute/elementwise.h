// Dropout and GELU, faster than LibTorch's on a CPU. float32 and bfloat16; any thread; elsewhere
// (other dtypes and devices) they are LibTorch's own.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::trainer {

// Zeroes each element with `probability` in [0, 1) and divides the others by 1 - probability. Which
// ones follows from one number of torch's default generator (at::manual_seed); backward draws them
// again instead of keeping a mask.
at::Tensor DropElements(const at::Tensor& x, double probability);

// at::gelu(x, "tanh").
at::Tensor GeluTanh(const at::Tensor& x);

}  // namespace ddprun::trainer

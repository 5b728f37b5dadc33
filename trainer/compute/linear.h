// Linear layers through Multiply (matmul.h), forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::trainer {

enum class WeightLayout {
  kOutIn,  // [out, in], as torch.nn.Linear
  kInOut,  // [in, out], as transformers' Conv1D
};

// x [..., in] -> [..., out]. `bias` [out] may be undefined. The same values as at::linear up to the
// order of sums; inside a PrecisionScope of bfloat16 the result is bfloat16, as with autocast, and
// the bias gradient is summed in float32. Differentiable once. Any thread.
at::Tensor LinearLayer(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& bias,
                       WeightLayout layout = WeightLayout::kOutIn);

}  // namespace ddprun::trainer

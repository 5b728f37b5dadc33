// Texts of different lengths as one matrix without padding, and back. Whatever treats each token
// by itself then computes nothing for padding; attention gets its rectangle. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun::trainer {

// The rows of `padded` [height, C] at `places`, int64 [N], ascending and different: [N, C].
// Differentiable once; PadRows is its gradient.
at::Tensor PackRows(const at::Tensor& padded, const at::Tensor& places);

// `packed` [N, C] at those places of a matrix [height, C] that is zero elsewhere. Differentiable
// once; PackRows is its gradient.
at::Tensor PadRows(const at::Tensor& packed, const at::Tensor& places, int64_t height);

}  // namespace ddprun::trainer

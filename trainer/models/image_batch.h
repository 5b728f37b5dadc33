// What image models ask of a batch.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::trainer {

// The inputs as float32 [B, C, H, W]; flat ones [B, C * H * W] are given the shape `image`, {C, H,
// W}, unless that is empty. Throws Failure when they are no such images.
at::Tensor Images(const at::Tensor& inputs, at::IntArrayRef image);

}  // namespace ddprun::trainer

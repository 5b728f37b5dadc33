// What image models ask of a batch.
#pragma once

#include "trainer/data/dataset.h"

namespace ddprun::trainer {

// The inputs as float32 [B, C, H, W]; flat ones [B, C * H * W] are given the shape `image`, {C, H,
// W}, unless that is empty. Throws Failure when they are no such images.
at::Tensor Images(const Batch& batch, at::IntArrayRef image);

}  // namespace ddprun::trainer

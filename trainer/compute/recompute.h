// Gradient checkpointing: saves memory by computing forward again in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace ddprun::trainer {

using Forward = std::function<at::Tensor(const at::Tensor& x)>;

// Returns forward(x), but keeps only x for backward. Backward calls `forward` again, with the same
// random numbers and precision, so that gradients have the same bits. `parameters` are all that
// `forward` uses; objects that it refers to must live until backward ends.
at::Tensor RunWithRecompute(const Forward& forward,
                            const at::Tensor& x,
                            const std::vector<at::Tensor>& parameters);

// Returns whether this thread is in a second forward, so that no batch is counted twice.
bool IsRecomputing();

}  // namespace ddprun::trainer

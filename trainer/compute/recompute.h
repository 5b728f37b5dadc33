// Gradient checkpointing: less memory from forward to backward, for a second forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace ddprun::trainer {

using Forward = std::function<at::Tensor(const at::Tensor& x)>;

// forward(x), of which only x is kept for backward: backward computes the rest again, with the same
// random numbers and precision, and the gradients of x and of the parameters have the same bits.
// `parameters`: all that forward uses. What it holds must stay until backward is over.
at::Tensor Recomputed(const Forward& forward,
                      const at::Tensor& x,
                      const std::vector<at::Tensor>& parameters);

// Whether this thread computes something for the second time, which counts no batch twice.
bool IsRecomputing();

}  // namespace ddprun::trainer

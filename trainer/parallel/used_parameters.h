// Which parameters a loss can reach.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace ddprun::trainer {

// For each accumulator (AccumulateGrad node of a parameter) whether backward from `outputs` would
// come to it. Walks the autograd graph once.
std::vector<bool> ReachedBy(std::span<const at::Tensor> outputs,
                            std::span<torch::autograd::Node* const> accumulators);

}  // namespace ddprun::trainer

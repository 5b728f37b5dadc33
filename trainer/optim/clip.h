// Clipping by the global gradient norm, as torch.nn.utils.clip_grad_norm_.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun::trainer {

// The 2-norm over all elements of all tensors (gradients, or flat buckets of them). 0 for none.
// On a GPU this waits for the device.
double GlobalNorm(const std::vector<at::Tensor>& tensors);

// Scales the tensors in place so that their global norm is at most max_norm; returns the norm from
// before. A norm that is not finite makes them so too, as in torch: look at the result.
double ClipGlobalNorm(const std::vector<at::Tensor>& tensors, double max_norm);

// The gradients of the parameters that have one.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters);

}  // namespace ddprun::trainer

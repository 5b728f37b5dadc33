// Clipping by the global gradient norm (compute/norm.h), as torch.nn.utils.clip_grad_norm_.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun::trainer {

// Scales the tensors, whose norm together is `norm`, in place so that it is at most max_norm. A
// norm that is not finite makes them so too, as in torch.
void ClipTo(double max_norm, double norm, const std::vector<at::Tensor>& tensors);

// ClipTo for the tensors' own norm, which is returned: look at the result.
double ClipGlobalNorm(const std::vector<at::Tensor>& tensors, double max_norm);

// The gradients of the parameters that have one.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters);

}  // namespace ddprun::trainer

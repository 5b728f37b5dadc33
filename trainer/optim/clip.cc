#include "trainer/optim/clip.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>

#include "trainer/compute/norm.h"

namespace ddprun::trainer {

void ClipTo(double max_norm, double norm, const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  // In float and by reciprocal, as torch computes max_norm / (total_norm + 1e-6) on a tensor.
  const float reciprocal = 1.0F / (static_cast<float>(norm) + 1e-6F);
  const float scale = reciprocal * static_cast<float>(max_norm);
  // Not "scale < 1": a norm that is not a number must reach the gradients too.
  if (!tensors.empty() && !(scale >= 1.0F)) at::_foreach_mul_(tensors, scale);
}

double ClipGlobalNorm(const std::vector<at::Tensor>& tensors, double max_norm) {
  const double norm = GlobalNorm(tensors);
  ClipTo(max_norm, norm, tensors);
  return norm;
}

std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace ddprun::trainer

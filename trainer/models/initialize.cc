#include "trainer/models/initialize.h"

#include <cmath>

namespace ddprun::trainer {

int64_t FanIn(const at::Tensor& weight) {
  return weight.numel() / weight.size(0);
}

void InitializeAsTorch(at::Tensor& weight, at::Tensor& bias) {
  // kaiming_uniform_(weight, a=sqrt(5)), then the bias; in Python's order of operations, since the
  // bounds decide the bits.
  const double root = std::sqrt(static_cast<double>(FanIn(weight)));
  const double gain = std::sqrt(2.0 / (1 + std::pow(std::sqrt(5.0), 2)));
  const double bound = std::sqrt(3.0) * (gain / root);
  weight.uniform_(-bound, bound);
  if (bias.defined()) bias.uniform_(-1 / root, 1 / root);
}

void KaimingNormalFanOut(at::Tensor& weight) {
  const int64_t receptive_field = weight.numel() / (weight.size(0) * weight.size(1));
  const auto fan_out = static_cast<double>(weight.size(0) * receptive_field);
  weight.normal_(0, std::sqrt(2.0) / std::sqrt(fan_out));
}

}  // namespace ddprun::trainer

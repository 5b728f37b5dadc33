#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/pow.h>

#include <numbers>

#include "trainer/models/llama.h"

namespace ddprun::trainer {

// In float32 and in the order of transformers' modeling_rope_utils.py: at long positions the last
// bit of a frequency is visible in the logits.
at::Tensor RotaryFrequencies(int64_t head_dim, double theta, const RopeScaling& scaling) {
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, at::kLong).to(at::kFloat) / static_cast<double>(head_dim);
  const at::Tensor frequencies = 1.0 / at::pow(theta, exponents);
  if (scaling.type == RopeScaling::Type::kNone || scaling.type == RopeScaling::Type::kDynamic) {
    return frequencies;
  }
  if (scaling.type == RopeScaling::Type::kLinear) return frequencies / scaling.factor;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const at::Tensor wavelengths = 2 * std::numbers::pi / frequencies;
  // 1 for short wavelengths, 0 for long ones, and the transition between them.
  const at::Tensor kept = at::clamp((original / wavelengths - scaling.low_freq_factor) /
                                        (scaling.high_freq_factor - scaling.low_freq_factor),
                                    0.0, 1.0);
  return (1.0 - kept) * frequencies / scaling.factor + kept * frequencies;
}

}  // namespace ddprun::trainer

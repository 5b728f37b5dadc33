#include "trainer/optim/loss_scaler.h"

#include <ATen/ops/scalar_tensor.h>

#include <cmath>

namespace ddprun::trainer {

void LossScaler::Update(bool overflowed) {
  constexpr float kGrowth = 2;
  constexpr float kBackoff = 0.5;
  if (overflowed) {
    ++skipped_;
    scale_ *= kBackoff;
    good_steps_ = 0;
  } else if (++good_steps_ == growth_interval_) {
    if (std::isfinite(scale_ * kGrowth)) scale_ *= kGrowth;
    good_steps_ = 0;
  }
}

void LossScaler::NameState(StateVisitor& visitor) {
  const at::Tensor scale = at::scalar_tensor(scale_, at::kFloat);
  visitor.Section("loss_scaler.");
  visitor.Tensor("scale", scale);
  visitor.Number("good_steps", good_steps_);
  visitor.Number("skipped_steps", skipped_);
  scale_ = scale.item<float>();
}

}  // namespace ddprun::trainer

#include "trainer/optim/loss_scaler.h"

#include <ATen/ops/scalar_tensor.h>

#include <cmath>
#include <string>

#include "base/failure.h"

namespace ddprun::trainer {

bool LossScaler::Accepts(double grad_norm, int64_t step) {
  constexpr float kSmallestScale = 1.0F / 65536;
  const bool finite = std::isfinite(grad_norm);
  Update(!finite);
  if (finite || scale_ >= kSmallestScale) return finite;
  throw FailureOfAllRanks(
      Error{.title = "NO LOSS SCALE FITS",
            .where = "step " + std::to_string(step),
            .what = "Gradients are infinite or NaN in float16 however small the loss scale is; it "
                    "was halved down to 2^-16.",
            .hint = "Take training.precision \"bf16\" or \"fp32\", lower "
                    "optimizer.learning_rate, or look at the\ndata of this step.",
            .page = "no-loss-scale"});
}

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

// Limits each element of the gradients (training.max_grad_value).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/where.h>

#include "trainer/loop/step_part.h"

namespace ddprun::trainer {

// Each rank clips its own part of the averaged gradients, before the norm clips them. Infinities
// stay: by the norm the loss scale of float16 sees an overflow, and a run that it has diverged.
class ClipByValue final : public StepPart {
 public:
  explicit ClipByValue(double most) : most_(most) {}

  void AfterGradients(const Step& step) override {
    for (at::Tensor& gradient : step.strategy.Gradients()) {
      if (!gradient.defined()) continue;
      gradient.copy_(at::where(gradient.isinf(), gradient, at::clamp(gradient, -most_, most_)));
    }
  }

 private:
  const double most_;
};

}  // namespace ddprun::trainer

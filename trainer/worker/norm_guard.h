// Scales down gradients that are far larger than in the steps before (training.max_norm_jump).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "trainer/loop/step_part.h"

namespace ddprun::trainer {

// The norms of the last steps. Pure.
class NormHistory {
 public:
  static constexpr int64_t kSteps = 100;
  static constexpr int64_t kLeast = 20;  // steps before there is a median

  NormHistory();
  void Add(double norm);
  std::optional<double> Median() const;
  void NameState(StateVisitor& visitor);

 private:
  at::Tensor norms_;   // float64 [kSteps], on the host; the oldest is replaced next
  int64_t count_ = 0;  // of norms added
};

// All ranks decide alike, because all have the same norm. Norms that are not finite stay as they
// are: the loop decides about them.
class NormGuard final : public StepPart {
 public:
  explicit NormGuard(double most) : most_(most) {}

  void BeforeStep(const Step& step) override;
  void AfterGradients(const Step& step) override;
  void AfterUpdate(const Step& step) override;
  void NameState(StateVisitor& visitor) override;

 private:
  const double most_;  // times the median
  NormHistory history_;
  std::optional<double> norm_;  // of this step, which may be repeated until its update
};

}  // namespace ddprun::trainer

// The learning rate over a run, by the formulas of transformers.optimization. Pure; LibTorch-free.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "trainer/config/training_config.h"

namespace ddprun::trainer {

struct ScheduleOptions {
  LrSchedulerType shape = LrSchedulerType::kCosine;
  double warmup = 0;             // >= 1: optimizer steps; < 1: share of total_steps, rounded up
  bool warmup_from_zero = true;  // false: as if the warmup had begun one step earlier
  double min_lr_ratio = 0;       // last / peak learning rate; linear and cosine only
  int64_t total_steps = 0;       // optimizer steps of the run, warmup included
};

// Returns the warmup in whole optimizer steps.
inline int64_t WarmupSteps(const ScheduleOptions& options) {
  if (options.warmup >= 1) return static_cast<int64_t>(options.warmup);
  return static_cast<int64_t>(std::ceil(static_cast<double>(options.total_steps) * options.warmup));
}

// Returns learning rate / peak learning rate for optimizer step `step`, counted from 0. Warmup
// rises to 1 at step WarmupSteps(); at step 0 it is 0, or else 1 / (WarmupSteps() + 1). Then the
// shape falls to min_lr_ratio at total_steps and stays there.
inline double LearningRateFactor(const ScheduleOptions& options, int64_t step) {
  const int64_t warmup = WarmupSteps(options);
  if (step < warmup) {
    const int64_t earlier = options.warmup_from_zero ? 0 : 1;
    return static_cast<double>(step + earlier) / static_cast<double>(warmup + earlier);
  }
  if (options.shape == LrSchedulerType::kConstant) return 1.0;
  const int64_t falling = std::max<int64_t>(1, options.total_steps - warmup);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(falling));
  const double shape = options.shape == LrSchedulerType::kLinear
                           ? 1.0 - progress
                           : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return shape * (1.0 - options.min_lr_ratio) + options.min_lr_ratio;
}

}  // namespace ddprun::trainer

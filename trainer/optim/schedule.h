// The learning rate over a run, by the formulas of transformers.optimization. Pure; LibTorch-free.
#pragma once

#include <cstdint>

namespace ddprun::trainer {

struct ScheduleOptions {
  enum class Shape { kConstant, kLinear, kCosine };

  Shape shape = Shape::kCosine;
  double warmup = 0;        // >= 1: optimizer steps; < 1: share of total_steps, rounded up
  bool warmup_from_zero = true;  // false: as if the warmup had begun one step earlier
  double min_lr_ratio = 0;  // last / peak learning rate; linear and cosine only
  int64_t total_steps = 0;  // optimizer steps of the run, warmup included
};

// Warmup in whole optimizer steps.
int64_t WarmupSteps(const ScheduleOptions& options);

// learning rate / peak learning rate for optimizer step `step`, counted from 0. Warmup rises from
// 0, or else from 1 / (WarmupSteps() + 1), at step 0 to 1 at step WarmupSteps(); then the shape
// falls to min_lr_ratio at total_steps and stays there.
double LearningRateFactor(const ScheduleOptions& options, int64_t step);

}  // namespace ddprun::trainer

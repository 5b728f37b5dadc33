#include "trainer/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ddprun::trainer {

int64_t WarmupSteps(const ScheduleOptions& options) {
  if (options.warmup >= 1) return static_cast<int64_t>(options.warmup);
  return static_cast<int64_t>(std::ceil(static_cast<double>(options.total_steps) * options.warmup));
}

double LearningRateFactor(const ScheduleOptions& options, int64_t step) {
  const int64_t warmup = WarmupSteps(options);
  if (step < warmup) {
    const int64_t earlier = options.warmup_from_zero ? 0 : 1;
    return static_cast<double>(step + earlier) / static_cast<double>(warmup + earlier);
  }
  if (options.shape == ScheduleOptions::Shape::kConstant) return 1.0;
  const int64_t falling = std::max<int64_t>(1, options.total_steps - warmup);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(falling));
  const double shape = options.shape == ScheduleOptions::Shape::kLinear
                           ? 1.0 - progress
                           : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return shape * (1.0 - options.min_lr_ratio) + options.min_lr_ratio;
}

}  // namespace ddprun::trainer

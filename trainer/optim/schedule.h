// The learning rate over a run, by the formulas of transformers.optimization. Pure; LibTorch-free.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "trainer/config/optimizer_config.h"

namespace ddprun::trainer {

struct ScheduleOptions {
  LrSchedulerType shape = LrSchedulerType::kCosine;
  double warmup = 0;             // >= 1: optimizer steps; < 1: share of total_steps, rounded up
  bool warmup_from_zero = true;  // false: as if the warmup had begun one step earlier
  double min_lr_ratio = 0;       // last / peak learning rate; not for restarts and inverse_sqrt
  int64_t cycles = 1;            // cosine_with_restarts
  double power = 1;              // polynomial
  double decay = 0;              // warmup_stable_decay: the last steps, as `warmup`
  DecayType decay_type = DecayType::kCosine;  // warmup_stable_decay
  double step_size = 0;                       // step: in optimizer steps
  std::vector<double> milestones = {};        // multi_step: each as `warmup`
  double gamma = 0.1;                         // step, multi_step
  double rising_share = 0.3;                  // one_cycle: of the run
  double div_factor = 25;                     // one_cycle: peak / first learning rate
  double final_div_factor = 1e4;              // one_cycle: first / last learning rate
  // The first and the last factor of a search, which takes the place of the shape; empty: none.
  std::vector<double> range = {};
  int64_t total_steps = 0;  // optimizer steps of the run, warmup included
};

// Returns a number of steps, given as steps or as a share of the run, in whole optimizer steps.
inline int64_t WholeSteps(double given, int64_t total_steps) {
  if (given >= 1) return static_cast<int64_t>(given);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * given));
}

inline int64_t WarmupSteps(const ScheduleOptions& options) {
  return WholeSteps(options.warmup, options.total_steps);
}

// Returns how far `step` is from `begin` to `end`: 0 to 1.
inline double ProgressOf(int64_t step, int64_t begin, int64_t end) {
  const auto length = static_cast<double>(std::max<int64_t>(1, end - begin));
  return std::clamp(static_cast<double>(step - begin) / length, 0.0, 1.0);
}

// Returns how many intervals of `steps` have passed.
inline double IntervalsIn(double steps, int64_t step) {
  constexpr double kRounding = 1e-9;  // 3 * 0.1 epochs of 10 steps are 3 steps
  return std::floor(static_cast<double>(step) / steps + kRounding);
}

inline double HalfCosine(double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

inline double DecayFactor(DecayType type, double progress) {
  switch (type) {
    case DecayType::kCosine:
      return HalfCosine(progress);
    case DecayType::kLinear:
      return 1.0 - progress;
    case DecayType::kOneMinusSqrt:
      return 1.0 - std::sqrt(progress);
  }
  return 0;
}

// Returns the factor of PyTorch's OneCycleLR with cosines.
inline double OneCycleFactor(const ScheduleOptions& options, int64_t step) {
  const auto total = static_cast<double>(options.total_steps);
  const double peak = options.rising_share * total - 1;
  const double first = 1 / options.div_factor;
  const double last = first / options.final_div_factor;
  const auto at = static_cast<double>(step);
  if (at < peak) return 1 + (first - 1) * HalfCosine(at / peak);
  return last + (1 - last) * HalfCosine(std::min(1.0, (at - peak) / (total - 1 - peak)));
}

// Returns the factor after the warmup, as if min_lr_ratio were 0.
inline double ShapeFactor(const ScheduleOptions& options, int64_t step) {
  const int64_t warmup = WarmupSteps(options);
  const int64_t total = options.total_steps;
  const double progress = ProgressOf(step, warmup, total);
  switch (options.shape) {
    case LrSchedulerType::kConstant:
      return 1.0;
    case LrSchedulerType::kLinear:
      return 1.0 - progress;
    case LrSchedulerType::kCosine:
      return HalfCosine(progress);
    case LrSchedulerType::kCosineWithRestarts:
      if (progress >= 1.0) return 0.0;
      return HalfCosine(std::fmod(static_cast<double>(options.cycles) * progress, 1.0));
    case LrSchedulerType::kPolynomial:
      return std::pow(1.0 - progress, options.power);
    case LrSchedulerType::kInverseSqrt: {
      const auto scale = static_cast<double>(warmup > 0 ? warmup : 10'000);
      return 1.0 / std::sqrt((static_cast<double>(step - warmup) + scale) / scale);
    }
    case LrSchedulerType::kWarmupStableDecay: {
      const int64_t begin = std::max(warmup, total - WholeSteps(options.decay, total));
      return step < begin ? 1.0 : DecayFactor(options.decay_type, ProgressOf(step, begin, total));
    }
    case LrSchedulerType::kStep:
      return std::pow(options.gamma, IntervalsIn(options.step_size, step));
    case LrSchedulerType::kMultiStep:
      return std::pow(options.gamma, static_cast<double>(std::ranges::count_if(
                                         options.milestones, [&](double milestone) {
                                           return WholeSteps(milestone, total) <= step;
                                         })));
    case LrSchedulerType::kOneCycle:
      return OneCycleFactor(options, step);
    case LrSchedulerType::kReduceLrOnPlateau:
      return 1.0;  // Plateau has the factor
  }
  return 1.0;
}

// Returns learning rate / peak learning rate for optimizer step `step`, counted from 0. Warmup
// rises to 1 at step WarmupSteps(); at step 0 it is 0, or else 1 / (WarmupSteps() + 1). Then the
// shape falls to min_lr_ratio at total_steps and stays there; inverse_sqrt, step and multi_step
// have no minimum. In a search it rises from the first step to the last, each time by one factor.
inline double LearningRateFactor(const ScheduleOptions& options, int64_t step) {
  if (const std::vector<double>& range = options.range; !range.empty()) {
    return range[0] * std::pow(range[1] / range[0], ProgressOf(step, 0, options.total_steps - 1));
  }
  const int64_t warmup = WarmupSteps(options);
  if (step < warmup) {
    const int64_t earlier = options.warmup_from_zero ? 0 : 1;
    return static_cast<double>(step + earlier) / static_cast<double>(warmup + earlier);
  }
  return ShapeFactor(options, step) * (1.0 - options.min_lr_ratio) + options.min_lr_ratio;
}

}  // namespace ddprun::trainer

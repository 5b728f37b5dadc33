// Sections "optimizer" and "scheduler" of a config; see config.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <ddprun/options.h>
#include "trainer/config/value_types.h"

namespace ddprun::trainer {

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  bool type_given = false;  // the file or an override sets `type`
  double learning_rate = 3e-4;
  JsonText learning_rate_factors;  // see parameter_factors.h; {} means none
  double weight_decay = 0.1;       // ReadConfig() sets the defaults of other types than adamw
  JsonText weight_decay_factors;   // see parameter_factors.h; {} means none
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.0;   // sgd
  double dampening = 0.0;  // sgd
  bool nesterov = false;   // sgd
  double ema_decay = 0;    // of the averages of the weights; 0 means none
  // Words of parameters' names (GroupByDecay in optim/optimizer.h). The default finds biases and
  // norms of all built-in models ("ln" in GPT-2, "bn" and "downsample.1" in ResNet), and usual
  // names of norms in users' models.
  std::vector<std::string> no_decay = {"bias",      "norm", "layernorm", "rmsnorm",     "batchnorm",
                                       "groupnorm", "ln",   "bn",        "downsample.1"};
};

enum class LrSchedulerType {
  kCosine,
  kLinear,
  kConstant,
  kCosineWithRestarts,
  kPolynomial,
  kInverseSqrt,
  kWarmupStableDecay,
  kStep,
  kMultiStep,
  kOneCycle,
  kReduceLrOnPlateau,
};

// How the learning rate falls at the end of kWarmupStableDecay.
enum class DecayType { kCosine, kLinear, kOneMinusSqrt };

struct SchedulerConfig {
  LrSchedulerType lr_scheduler_type = LrSchedulerType::kCosine;
  double warmup_steps = 0;       // optimizer steps if >= 1, else a share of all steps
  bool warmup_from_zero = true;  // factor of step i of n: i / n; false means (i + 1) / (n + 1)
  double min_lr_ratio = 0.1;     // the last learning rate / learning_rate
  int64_t num_cycles = 1;        // cosine_with_restarts
  double power = 1;              // polynomial
  double decay_steps = 0.1;      // warmup_stable_decay: as warmup_steps
  DecayType decay_type = DecayType::kCosine;                           // warmup_stable_decay
  Interval step_size = {.amount = 30, .unit = IntervalUnit::kEpochs};  // step
  std::vector<double> milestones = {};  // multi_step: each as warmup_steps
  double gamma = 0.1;                   // step, multi_step
  double pct_start = 0.3;               // one_cycle: share of the run in which the rate rises
  double div_factor = 25;               // one_cycle: learning_rate / the first one
  double final_div_factor = 1e4;        // one_cycle: the first learning rate / the last one
  double plateau_factor = 0.1;          // reduce_lr_on_plateau: and the next four
  int64_t plateau_patience = 10;        // evaluations
  double plateau_threshold = 1e-4;      // share of the best value
  int64_t plateau_cooldown = 0;         // evaluations
  // The first and the last learning rate of a search; empty: none.
  std::vector<double> range_test = {};
};

}  // namespace ddprun::trainer

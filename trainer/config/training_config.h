// Sections "run", "training", "optimizer", "scheduler", "checkpoint", "evaluation" and "report" of
// a config; see config.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <ddprun/options.h>
#include "trainer/config/value_types.h"

namespace ddprun::trainer {

struct RunConfig {
  std::string name;                        // "" means date and time (report/run_folder.h)
  std::string output_dir = "runs/{name}";  // relative to the working directory
  int64_t seed = 42;
  int64_t max_steps = -1;         // optimizer steps, never 0; if > 0, max_epochs does not count
  double max_epochs = 1.0;        // passes over the training data
  Interval max_time = {};         // from the job's start; 0 means no limit
  std::string resume = "job";     // "job", "auto", "never", or a run folder or checkpoint
  std::string device = "auto";    // "auto", "cpu", "cuda", "cuda:0"
  std::string recovery = "auto";  // of a lost rank: "peer", "none"; "auto": "peer" if possible
};

enum class Loss { kAuto, kCrossEntropy, kMse, kCausalLm };
enum class Metric { kAccuracy, kF1, kF1Macro, kMcc, kPerplexity, kMse, kMae };

enum class Precision { kFp32, kBf16, kFp16 };
enum class MatmulSetting { kAuto, kDefault, kOneDnn };

struct TrainingConfig {
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 0;  // ReadConfig() turns 0 into the train batch size
  int64_t gradient_accumulation_steps = 1;
  int64_t virtual_ranks = 0;    // 0 means that each process is one logical rank
  double max_grad_norm = 1.0;   // 0 means no clipping
  double max_grad_value = 0.0;  // of each element; 0 means no clipping
  Precision precision = Precision::kFp32;
  double init_loss_scale = 65536;             // fp16
  int64_t loss_scale_growth_interval = 2000;  // fp16, steps
  bool gradient_checkpointing = false;
  std::vector<std::string> freeze;  // words of parameters' names (trainer/optim/name_words.h)
  int64_t lora_r = 0;               // 0 means no LoRA
  double lora_alpha = 8;
  double lora_dropout = 0;
  std::vector<std::string> lora_target_modules;  // empty means those of LoraTargets()
  bool use_rslora = false;
  bool tf32 = false;
  bool cuda_graph = false;
  MatmulSetting matmul_engine = MatmulSetting::kAuto;
  Loss loss = Loss::kAuto;
  double label_smoothing = 0.0;
  bool stop_on_bad_loss = true;  // NaN or infinite
};

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  bool type_given = false;  // the file or an override sets `type`
  double learning_rate = 3e-4;
  JsonText learning_rate_factors;  // see rate_factors.h; {} means none
  double weight_decay = 0.1;       // ReadConfig() sets the defaults of other types than adamw
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
  double gamma = 0.1;                                                  // step
  double plateau_factor = 0.1;      // reduce_lr_on_plateau: and the next four
  int64_t plateau_patience = 10;    // evaluations
  double plateau_threshold = 1e-4;  // share of the best value
  int64_t plateau_cooldown = 0;     // evaluations
};

struct CheckpointConfig {
  bool save_at_end = true;
  Interval save_steps = {.amount = 1800, .unit = IntervalUnit::kSeconds};
  int64_t save_total_limit = 2;  // the newest; 0 means all
  std::string save_best;         // "" means none, "loss", or a word of evaluation.metrics
  bool load_best_model_at_end = false;
  int64_t save_total_limit_best = 1;  // the best; 0 means all
  bool save_only_model = false;
  std::string dir;  // "" means "checkpoints" in the run folder
};

struct EvaluationConfig {
  Interval eval_steps = {};          // between evaluations, not a time; 0 means only at the end
  std::vector<std::string> metrics;  // words of Metric; empty means the task's
  std::string sample_prompt;
  int64_t sample_length = 0;  // tokens to generate at the end; 0 means none
  double sample_temperature = 0.8;
  int64_t sample_top_k = 40;  // 0 means all
  double sample_top_p = 1.0;
  int64_t early_stopping_patience = 0;  // evaluations without an improvement; 0 means no limit
  double early_stopping_threshold = 0;
};

enum class ProgressBarMode { kAuto, kOn, kOff };

struct ReportConfig {
  int64_t logging_steps = 10;
  ProgressBarMode progress_bar = ProgressBarMode::kAuto;  // kAuto means on a terminal
  bool state_hashes = false;
  bool tensorboard = false;
  std::string on_event;
  std::vector<int64_t> trace_steps = {};  // the first and the last traced step; empty: none
};

}  // namespace ddprun::trainer

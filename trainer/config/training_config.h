// Sections "run", "training", "optimizer", "scheduler", "checkpoint", "evaluation" and "report" of
// a config; see config.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/value_types.h"

namespace ddprun::trainer {

struct RunConfig {
  std::string name;                        // empty: the date and time (report/run_folder.h)
  std::string output_dir = "runs/{name}";  // relative to the working directory
  int64_t seed = 42;
  int64_t max_steps = -1;       // optimizer steps, never 0; > 0 rules over max_epochs
  double max_epochs = 1.0;      // passes over the training data
  Interval max_time = {};       // of the job, from its start; 0: no limit
  std::string resume = "job";   // "job", "auto", "never", or a run folder or checkpoint
  std::string device = "auto";  // "auto", "cpu", "cuda", "cuda:0"
  // What a rank that dies in a step is made anew from; "auto": what the strategy allows.
  std::string recovery = "auto";  // "auto", "peer", "memory", "none"
};

enum class Loss { kAuto, kCrossEntropy, kMse, kCausalLm };
enum class Metric { kAccuracy, kF1, kF1Macro, kMcc, kPerplexity, kMse, kMae };

enum class Precision { kFp32, kBf16, kFp16 };
enum class MatmulSetting { kAuto, kDefault, kOneDnn };

struct TrainingConfig {
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 0;  // ReadConfig turns 0 into the train batch size
  int64_t gradient_accumulation_steps = 1;
  int64_t virtual_ranks = 0;   // 0: every process is one logical rank
  double max_grad_norm = 1.0;  // 0: no clipping
  Precision precision = Precision::kFp32;
  double init_loss_scale = 65536;             // fp16
  int64_t loss_scale_growth_interval = 2000;  // fp16, steps
  bool gradient_checkpointing = false;
  bool tf32 = false;
  bool cuda_graph = false;
  MatmulSetting matmul_engine = MatmulSetting::kAuto;
  Loss loss = Loss::kAuto;
  double label_smoothing = 0.0;
  bool stop_on_bad_loss = true;  // NaN or infinite
};

enum class OptimizerType { kAdamW, kAdam, kSgd };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  bool type_given = false;  // in the file or an override
  double learning_rate = 3e-4;
  double weight_decay = 0.1;  // ReadConfig: 0 for adam and sgd where the file has none
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.0;  // sgd
  // Words of names (GroupByDecay in optim/optimizer.h). The default finds the biases and norms of
  // all built-in models: "layernorm" and "norm" those of BERT and Llama, "ln" those of GPT-2, "bn"
  // and "downsample.1" those of ResNet; and what norms are called in models of users' own.
  std::vector<std::string> no_decay = {"bias",      "norm", "layernorm", "rmsnorm",     "batchnorm",
                                       "groupnorm", "ln",   "bn",        "downsample.1"};
};

enum class LrSchedulerType { kCosine, kLinear, kConstant };

struct SchedulerConfig {
  LrSchedulerType lr_scheduler_type = LrSchedulerType::kCosine;
  double warmup_steps = 0;       // >= 1: whole optimizer steps; < 1: share of all steps
  bool warmup_from_zero = true;  // step i of n, from 0 on: i / n; false: (i + 1) / (n + 1)
  double min_lr_ratio = 0.1;     // cosine: the last learning rate / learning_rate
};

struct CheckpointConfig {
  bool save_at_end = true;
  Interval save_steps = {.amount = 1800, .unit = IntervalUnit::kSeconds};
  int64_t save_total_limit = 2;       // the newest; 0: all
  std::string save_best;              // "": none, "loss", or a word of evaluation.metrics
  int64_t save_total_limit_best = 1;  // the best; 0: all
  bool save_only_model = false;
  std::string dir;  // empty: "checkpoints" in the run folder
};

struct EvaluationConfig {
  Interval eval_steps = {};          // between evaluations, no time; 0: only at the end
  std::vector<std::string> metrics;  // words of Metric; empty: those of the task
  std::string sample_prompt;
  int64_t sample_length = 0;  // tokens, of text bytes, generated at the end; 0: none
  double sample_temperature = 0.8;
  int64_t sample_top_k = 40;  // 0: all
  double sample_top_p = 1.0;
};

enum class ProgressBarMode { kAuto, kOn, kOff };

struct ReportConfig {
  int64_t logging_steps = 10;
  ProgressBarMode progress_bar = ProgressBarMode::kAuto;  // auto: on a terminal
  bool state_hashes = false;
};

}  // namespace ddprun::trainer

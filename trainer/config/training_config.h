// Sections "run", "training", "optimizer", "scheduler", "strategy", "comm", "checkpoint",
// "evaluation" and "report" of a config; see config.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

// How often, or for how long.
enum class IntervalUnit { kSteps, kEpochs, kSeconds };
struct Interval {
  double amount = 0;  // 0: never, or no limit
  IntervalUnit unit = IntervalUnit::kSteps;
};

struct RunConfig {
  std::string name;                        // empty: the date and time (report/run_folder.h)
  std::string output_dir = "runs/{name}";  // relative to the working directory
  int64_t seed = 42;
  int64_t max_steps = -1;   // optimizer steps, never 0; > 0 rules over max_epochs
  double max_epochs = 1.0;  // passes over the training data
  Interval max_time = {};   // of the job, from its start; 0: no limit
  std::string resume = "job";   // "job", "auto", "never", or a run folder or checkpoint
  std::string device = "auto";  // "auto", "cpu", "cuda"
};

enum class Loss { kAuto, kCrossEntropy, kMse, kCausalLm };
enum class Metric { kAccuracy, kF1, kF1Macro, kMcc, kPerplexity, kMse, kMae };

enum class Precision { kFp32, kBf16 };
enum class MatmulSetting { kAuto, kDefault, kOneDnn };

struct TrainingConfig {
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 0;  // ReadConfig turns 0 into the train batch size
  int64_t gradient_accumulation_steps = 1;
  int64_t virtual_ranks = 0;   // 0: every process is one logical rank
  double max_grad_norm = 1.0;  // 0: no clipping
  Precision precision = Precision::kFp32;
  bool gradient_checkpointing = false;
  MatmulSetting matmul_engine = MatmulSetting::kAuto;
  Loss loss = Loss::kAuto;
  double label_smoothing = 0.0;
  bool stop_on_bad_loss = true;  // NaN or infinite
};

enum class OptimizerType { kAdamW, kAdam, kSgd };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
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

enum class StrategyType { kAuto, kSingle, kDdp };
enum class Overlap { kBackward, kStep, kBoth, kNone };
enum class CommHookType { kNone, kFp16, kBf16, kPowerSgd, kPostLocalSgd };

// A number, or the word "auto".
struct NumberOrAuto {
  double number = 0;
  bool automatic = false;
};

struct StrategyConfig {
  StrategyType type = StrategyType::kAuto;      // auto: ddp when the world has more than one rank
  NumberOrAuto bucket_cap_mb = {.number = 25};  // MiB
  double first_bucket_mb = 1;                   // MiB
  Overlap overlap = Overlap::kBackward;
  bool optimizer_in_backward = false;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = true;  // for configs that say so: there is no other way
  bool broadcast_buffers = true;
  bool check_finite = false;
  CommHookType comm_hook = CommHookType::kNone;
  int64_t power_sgd_rank = 1;
  int64_t power_sgd_start_step = 1000;
  int64_t post_local_sgd_start_step = 100;
  int64_t post_local_sgd_period = 4;
};

// How an all-reduce is done. kDirect is the fast one; the others are the textbook's, for study.
// Rank-order sums, with 16-bit floats rounded once: all but kRing, whose sums go around the ring,
// from another rank for each part of the data, and are rounded at every rank. All are
// deterministic and give the same bits on all ranks.
enum class AllReduceAlgorithm {
  kDirect,           // each rank sums a part of the data over all ranks and writes it to all
  kReduceBroadcast,  // rank 0 sums everything, then the others fetch the result
  kAllToAll,         // every rank fetches everything and sums it for itself
  kRing,             // each rank adds its part to what its left neighbour has; then parts go around
};

struct CommConfig {
  int64_t init_timeout_seconds = 300;  // until the first step is done
  int64_t train_timeout_seconds = 100;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect;  // of all-reduces
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
  int64_t eval_steps = 0;            // optimizer steps between evaluations; 0: only at the end
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

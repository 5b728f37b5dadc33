// Sections "run", "training", "checkpoint", "evaluation" and "report" of a config; see config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  std::string recovery = "auto";  // of a lost rank: "auto", "peer", "memory", "none"
};

enum class Loss { kAuto, kCrossEntropy, kMse, kCausalLm };
enum class Metric {
  kAccuracy,
  kPrecision,
  kRecall,
  kF1,
  kF1Macro,
  kMcc,
  kRocAuc,
  kPerplexity,
  kMse,
  kRmse,
  kMae,
  kR2,
  kConfusionMatrix,
};

enum class Precision { kFp32, kBf16, kFp16 };
enum class MatmulSetting { kAuto, kDefault, kOneDnn };

struct TrainingConfig {
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 0;  // ReadConfig() turns 0 into the train batch size
  int64_t gradient_accumulation_steps = 1;
  int64_t virtual_ranks = 0;    // 0 means that each process is one logical rank
  double max_grad_norm = 1.0;   // 0 means no clipping
  double max_grad_value = 0.0;  // of each element; 0 means no clipping
  double max_norm_jump = 0.0;   // times the median norm; 0 means no limit
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
  bool fused_kernels = true;
  MatmulSetting matmul_engine = MatmulSetting::kAuto;
  Loss loss = Loss::kAuto;
  double label_smoothing = 0.0;
  std::vector<double> class_weights;  // by class; empty means that all count alike
  bool balance_classes = false;       // OpenJob() sets class_weights then
  bool stop_on_bad_loss = true;       // NaN or infinite
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
  bool eval_on_start = false;        // before the first step, too
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
  std::string plugin;                     // the shared object with the observer; empty: none
  JsonText options;                       // passed to the observer
  std::vector<int64_t> trace_steps = {};  // the first and the last traced step; empty: none
};

}  // namespace ddprun::trainer

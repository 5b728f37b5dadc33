// How it is trained, on how many ranks, and what is reported.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

namespace {

// Longer waits than a week would overflow deadlines in places.
constexpr Range kTimeout = Between(1, 7 * 86400);

}  // namespace

std::vector<Key> TrainingKeys() {
  return {
      {.section = "training",
       .name = "per_device_train_batch_size",
       .slot = At<&Config::training, &TrainingConfig::per_device_train_batch_size>,
       .meaning = "Micro-batch of one rank; a step takes this times the accumulation steps times "
                  "the ranks.",
       .unit = "samples",
       .range = kSize,
       .aliases = {{"train_micro_batch_size_per_gpu", "DeepSpeed"},
                   {"local_batch_size", "torchtitan"},
                   {"batch_size", "PyTorch"},
                   {"micro_batch_size", "Megatron"}}},
      {.section = "training",
       .name = "per_device_eval_batch_size",
       .slot = At<&Config::training, &TrainingConfig::per_device_eval_batch_size>,
       .meaning = "Batch of one rank in validation; 0 means the training micro-batch.",
       .unit = "samples",
       .range = kSizeOrZero,
       .derived_default = "training.per_device_train_batch_size",
       .aliases = {{"eval_batch_size", "Hugging Face"}}},
      {.section = "training",
       .name = "gradient_accumulation_steps",
       .slot = At<&Config::training, &TrainingConfig::gradient_accumulation_steps>,
       .meaning = "Micro-batches whose gradients are summed before one optimizer step: a larger "
                  "batch in the same memory.",
       .unit = "micro-batches",
       .range = Between(1, 1 << 20),
       .aliases = {{"accumulate_grad_batches", "Lightning"}}},
      {.section = "training",
       .name = "max_grad_norm",
       .slot = At<&Config::training, &TrainingConfig::max_grad_norm>,
       .meaning = "Gradients with a larger global norm are scaled down to it; 0: no clipping.",
       .range = AtLeast(0),
       .aliases = {{"max_norm", "torchtitan"},
                   {"gradient_clipping", "DeepSpeed"},
                   {"gradient_clip_val", "Lightning"},
                   {"grad_clip", "nanoGPT"},
                   {"clip-norm", "Marian"}}},
  };
}

std::vector<Key> OptimizerKeys() {
  return {
      {.section = "optimizer",
       .name = "type",
       .slot = At<&Config::optimizer, &OptimizerConfig::type>,
       .meaning = "The update rule.",
       .aliases = {{"optim", "Hugging Face"}}},
      {.section = "optimizer",
       .name = "learning_rate",
       .slot = At<&Config::optimizer, &OptimizerConfig::learning_rate>,
       .meaning = "Highest learning rate, reached after the warmup.",
       .range = AtLeast(0),
       .aliases = {{"lr", "PyTorch and DeepSpeed"}, {"learn-rate", "Marian"}}},
      {.section = "optimizer",
       .name = "weight_decay",
       .slot = At<&Config::optimizer, &OptimizerConfig::weight_decay>,
       .meaning = "Decoupled for adamw, added to the gradient for adam and sgd.",
       .range = AtLeast(0),
       .derived_default = "0.1 for adamw, 0 for adam and sgd",
       .aliases = {{"wd", "PyTorch examples"}}},
      {.section = "optimizer",
       .name = "betas",
       .slot = At<&Config::optimizer, &OptimizerConfig::betas>,
       .meaning = "Decay of the running means of gradient and squared gradient (adamw, adam).",
       .range = kBelowOne,
       .aliases = {{"adam_beta1", "Hugging Face"},
                   {"adam_beta2", "Hugging Face"},
                   {"beta1", "nanoGPT"},
                   {"beta2", "nanoGPT"}}},
      {.section = "optimizer",
       .name = "eps",
       .slot = At<&Config::optimizer, &OptimizerConfig::eps>,
       .meaning = "Added to the denominator of the update (adamw, adam).",
       .range = Above(0),
       .aliases = {{"adam_epsilon", "Hugging Face"}, {"epsilon", "Keras"}}},
      {.section = "optimizer",
       .name = "momentum",
       .slot = At<&Config::optimizer, &OptimizerConfig::momentum>,
       .meaning = "Share of the last update that is kept in the next.",
       .range = kBelowOne,
       .only_for = "optimizer.type",
       .only_value = "sgd"},
      {.section = "optimizer",
       .name = "no_decay",
       .slot = At<&Config::optimizer, &OptimizerConfig::no_decay>,
       .meaning = "A parameter whose name contains one of these gets no weight decay.",
       .aliases = {{"no_decay_patterns", "Hugging Face"}}},
  };
}

std::vector<Key> SchedulerKeys() {
  return {
      {.section = "scheduler",
       .name = "lr_scheduler_type",
       .slot = At<&Config::scheduler, &SchedulerConfig::lr_scheduler_type>,
       .meaning = "How the learning rate falls after the warmup.",
       .aliases = {{"type", "DeepSpeed"}, {"lr_scheduler", "Lightning"}, {"decay_lr", "nanoGPT"}}},
      {.section = "scheduler",
       .name = "warmup_steps",
       .slot = At<&Config::scheduler, &SchedulerConfig::warmup_steps>,
       .meaning = "The learning rate rises over so many steps; below 1 it is a share of the run.",
       .unit = "optimizer steps or share",
       .range = AtLeast(0),
       .aliases = {{"warmup_ratio", "Hugging Face"},
                   {"warmup_num_steps", "DeepSpeed"},
                   {"warmup_iters", "nanoGPT"},
                   {"lr-warmup", "Marian"}}},
      {.section = "scheduler",
       .name = "min_lr_ratio",
       .slot = At<&Config::scheduler, &SchedulerConfig::min_lr_ratio>,
       .meaning = "Last learning rate of the cosine as a share of optimizer.learning_rate.",
       .range = Between(0, 1),
       .aliases = {{"min_lr_factor", "torchtitan"},
                   {"min_lr", "nanoGPT"},
                   {"final-lr-fraction", "LLM.Q"}}},
  };
}

std::vector<Key> StrategyKeys() {
  return {
      {.section = "strategy",
       .name = "type",
       .slot = At<&Config::strategy, &StrategyConfig::type>,
       .meaning = "How the ranks share the work; \"auto\" is ddp with two or more ranks.",
       .aliases = {{"strategy", "Lightning"}, {"parallelism", "torchtitan"}}},
      {.section = "strategy",
       .name = "bucket_cap_mb",
       .slot = At<&Config::strategy, &StrategyConfig::bucket_cap_mb>,
       .meaning = "Gradients are all-reduced in buckets of this size: small ones start earlier, "
                  "large ones cost less each.",
       .unit = "MiB",
       .range = {.min = 0, .max = 1 << 20, .min_excluded = true},
       .aliases = {{"ddp_bucket_cap_mb", "Hugging Face"},
                   {"bucket_size_mb", "PyTorch"},
                   {"reduce_bucket_size", "DeepSpeed"}}},
      {.section = "strategy",
       .name = "first_bucket_mb",
       .slot = At<&Config::strategy, &StrategyConfig::first_bucket_mb>,
       .meaning = "Size of the first bucket: small, so that communication starts early.",
       .unit = "MiB",
       .range = {.min = 0, .max = 1 << 20, .min_excluded = true},
       .aliases = {{"first_bucket_size_mb", "PyTorch"}}},
      {.section = "strategy",
       .name = "overlap",
       .slot = At<&Config::strategy, &StrategyConfig::overlap>,
       .meaning = "What goes on while gradients are all-reduced: the backward pass; the optimizer "
                  "step, bucket by bucket; both; or nothing. \"step\" and \"both\" need "
                  "training.max_grad_norm 0.",
       .aliases = {{"overlap_comm", "DeepSpeed"}}},
  };
}

std::vector<Key> CommKeys() {
  return {
      {.section = "comm",
       .name = "init_timeout_seconds",
       .slot = At<&Config::comm, &CommConfig::init_timeout_seconds>,
       .meaning = "Longest wait for another rank until the first step is done.",
       .unit = "seconds",
       .range = kTimeout,
       .aliases = {{"ddp_timeout", "Hugging Face"}, {"timeout", "PyTorch"}}},
      {.section = "comm",
       .name = "train_timeout_seconds",
       .slot = At<&Config::comm, &CommConfig::train_timeout_seconds>,
       .meaning = "Longest wait for another rank after that; then the error names who is missing.",
       .unit = "seconds",
       .range = kTimeout},
      {.section = "comm",
       .name = "algorithm",
       .slot = At<&Config::comm, &CommConfig::algorithm>,
       .meaning = "How gradients are all-reduced within a node. \"direct\" is the fastest; the "
                  "others are for study (docs/overlap.md)."},
  };
}

std::vector<Key> CheckpointKeys() {
  return {
      {.section = "checkpoint",
       .name = "save_at_end",
       .slot = At<&Config::checkpoint, &CheckpointConfig::save_at_end>,
       .meaning = "Writes model.safetensors into the run folder when the run ends.",
       .aliases = {{"save_last", "Lightning"}}},
  };
}

std::vector<Key> EvaluationKeys() {
  return {
      {.section = "evaluation",
       .name = "eval_steps",
       .slot = At<&Config::evaluation, &EvaluationConfig::eval_steps>,
       .meaning = "A validation pass after every so many steps; 0: only at the end.",
       .unit = "optimizer steps",
       .range = AtLeast(0),
       .aliases = {{"eval_interval", "nanoGPT"},
                   {"val_check_interval", "Lightning"},
                   {"valid-freq", "Marian"}}},
      {.section = "evaluation",
       .name = "sample_prompt",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_prompt>,
       .meaning = "Text that the sample at the end of the run goes on from.",
       .only_for = "model.type",
       .only_value = "gpt",
       .aliases = {{"start", "nanoGPT"}, {"prompt", "torchtitan"}}},
      {.section = "evaluation",
       .name = "sample_length",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_length>,
       .meaning = "Length of the text generated at the end of the run; 0: none.",
       .unit = "bytes",
       .range = Between(0, 1 << 20),
       .only_for = "model.type",
       .only_value = "gpt",
       .aliases = {{"max_new_tokens", "nanoGPT"}}},
      {.section = "evaluation",
       .name = "sample_temperature",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_temperature>,
       .meaning = "Below 1 the sample is more predictable, above 1 more surprising.",
       .range = Above(0),
       .only_for = "model.type",
       .only_value = "gpt",
       .aliases = {{"temperature", "nanoGPT"}}},
      {.section = "evaluation",
       .name = "sample_top_k",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_top_k>,
       .meaning = "Each token of the sample is one of so many likeliest; 0: any.",
       .unit = "tokens",
       .range = kSizeOrZero,
       .only_for = "model.type",
       .only_value = "gpt",
       .aliases = {{"top_k", "nanoGPT"}}},
  };
}

std::vector<Key> ReportKeys() {
  return {
      {.section = "report",
       .name = "logging_steps",
       .slot = At<&Config::report, &ReportConfig::logging_steps>,
       .meaning = "A log line and a metrics.jsonl line after every so many steps.",
       .unit = "optimizer steps",
       .range = AtLeast(1),
       .aliases = {{"log_every_n_steps", "Lightning"},
                   {"log_interval", "nanoGPT"},
                   {"log_freq", "torchtitan"},
                   {"disp-freq", "Marian"}}},
      {.section = "report",
       .name = "progress_bar",
       .slot = At<&Config::report, &ReportConfig::progress_bar>,
       .meaning = "\"auto\" shows it on a terminal; where there is none, log lines are printed.",
       .aliases = {{"enable_progress_bar", "Lightning"}, {"disable_tqdm", "Hugging Face"}}},
  };
}

}  // namespace ddprun::trainer

// What a run shows and leaves.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> CheckpointKeys() {
  return {
      {.section = "checkpoint",
       .name = "save_at_end",
       .slot = At<&Config::checkpoint, &CheckpointConfig::save_at_end>,
       .meaning = "Writes model.safetensors into the run folder when the run ends.",
       .aliases = {{"save_last", "Lightning"},
                   {"save_model save_final_model", "PyTorch examples"}}},
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
                   {"valid-freq", "Marian"},
                   {"eval_freq", "torchtitan"},
                   {"eval_every", "PyTorch examples"},
                   {"val_loss_every", "llm.c"},
                   {"val_interval", "MMEngine"},
                   {"eval_strategy evaluation_strategy", "Hugging Face"},
                   {"check_val_every_n_epoch", "Lightning", "Here it counts optimizer steps."}}},
      {.section = "evaluation",
       .name = "metrics",
       .slot = At<&Config::evaluation, &EvaluationConfig::metrics>,
       .meaning = "Any of \"accuracy\", \"f1\", \"f1_macro\", \"mcc\", \"perplexity\", \"mse\", "
                  "\"mae\". Empty: accuracy for classes, perplexity for tokens. A plugin's own "
                  "come along unasked. Exact over the ranks.",
       .aliases = {{"compute_metrics", "Hugging Face"},
                   {"valid-metrics", "Marian"},
                   {"metric", "PyTorch examples"}}},
      {.section = "evaluation",
       .name = "sample_prompt",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_prompt>,
       .meaning = "Text that the sample at the end of the run goes on from.",
       .only_for = "model.type",
       .only_values = {"gpt", "llama"},
       .aliases = {{"start", "nanoGPT"}, {"prompt", "torchtitan"}}},
      {.section = "evaluation",
       .name = "sample_length",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_length>,
       .meaning = "Length of the text generated at the end of the run; 0: none.",
       .unit = "tokens",
       .range = Between(0, 1 << 20),
       .only_for = "model.type",
       .only_values = {"gpt", "llama"},
       .aliases = {{"max_new_tokens", "nanoGPT"}}},
      {.section = "evaluation",
       .name = "sample_temperature",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_temperature>,
       .meaning = "Below 1 the sample is more predictable, above 1 more surprising.",
       .range = Above(0),
       .only_for = "model.type",
       .only_values = {"gpt", "llama"},
       .aliases = {{"temperature", "nanoGPT"}}},
      {.section = "evaluation",
       .name = "sample_top_k",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_top_k>,
       .meaning = "Each token of the sample is one of so many likeliest; 0: any.",
       .unit = "tokens",
       .range = kSizeOrZero,
       .only_for = "model.type",
       .only_values = {"gpt", "llama"},
       .aliases = {{"top_k", "nanoGPT"}}},
      {.section = "evaluation",
       .name = "sample_top_p",
       .slot = At<&Config::evaluation, &EvaluationConfig::sample_top_p>,
       .meaning = "Each token of the sample is one of the likeliest that together have this "
                  "probability; 1: any.",
       .range = {.min = 0, .max = 1, .min_excluded = true},
       .only_for = "model.type",
       .only_values = {"gpt", "llama"},
       .aliases = {{"top_p", "Hugging Face"}}},
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
                   {"disp-freq", "Marian"},
                   {"steps_per_print", "DeepSpeed"},
                   {"print_freq print_every log_every", "PyTorch examples"},
                   {"logging_strategy", "Hugging Face"}}},
      {.section = "report",
       .name = "progress_bar",
       .slot = At<&Config::report, &ReportConfig::progress_bar>,
       .meaning = "\"auto\" shows it on a terminal; where there is none, log lines are printed.",
       .aliases = {{"enable_progress_bar", "Lightning"},
                   {"disable_tqdm", "Hugging Face", "Instead of true write \"off\"."},
                   {"tqdm", "PyTorch examples"}}},
  };
}

}  // namespace ddprun::trainer

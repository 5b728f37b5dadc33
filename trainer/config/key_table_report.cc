// Keys of checkpoints, evaluations and reports.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> CheckpointKeys() {
  return {
      {.DDPRUN_KEY(checkpoint, save_at_end),
       .meaning = "Writes only the weights into the run folder (model/) when the run ends.",
       .derived_default = "true; with scheduler.range_test: false",
       .aliases = {{"save_last", "Lightning"},
                   {"save_model save_final_model", "PyTorch examples"}}},
      {.DDPRUN_KEY(checkpoint, save_steps),
       .meaning = "How often the whole state of the run is saved, so that it can be resumed; 0: "
                  "only if the run is stopped before its end.",
       .range = AtLeast(0),
       .aliases = {{"save_strategy", "Hugging Face", "For \"epoch\" write \"1 epoch\"."},
                   {"save_interval", "Megatron"},
                   {"interval enable_checkpoint", "torchtitan"},
                   {"checkpointing_steps", "accelerate"},
                   {"every_n_train_steps every_n_epochs train_time_interval enable_checkpointing",
                    "Lightning"},
                   {"save-freq", "Marian"},
                   {"checkpoint_every", "llm.c"},
                   {"save_every save_every_n_steps checkpoint_interval", "PyTorch examples"}}},
      {.DDPRUN_KEY(checkpoint, save_total_limit),
       .meaning = "How many of the newest checkpoints are kept; 0: all. The best ones are "
                  "counted separately.",
       .range = AtLeast(0),
       .aliases = {{"keep_latest_k", "torchtitan"},
                   {"num_checkpoints_to_keep", "Composer"},
                   {"keep_last max_to_keep", "PyTorch examples"}}},
      {.DDPRUN_KEY(checkpoint, save_best),
       .meaning = "\"loss\", or a metric of the run (evaluation.metrics): after the best "
                  "evaluation so far a checkpoint is saved. Empty: none.",
       .aliases = {{"metric_for_best_model", "Hugging Face"},
                   {"monitor", "Lightning"},
                   {"best_metric", "PyTorch examples"},
                   {"greater_is_better", "Hugging Face", "Which way is better is known."}}},
      {.DDPRUN_KEY(checkpoint, load_best_model_at_end),
       .meaning =
           "At the end model/ gets the weights of the best checkpoint (checkpoint.save_best) "
           "instead of the last ones."},
      {.DDPRUN_KEY(checkpoint, save_total_limit_best),
       .meaning = "How many of the best checkpoints are kept; 0: all.",
       .range = AtLeast(0),
       .aliases = {{"save_top_k", "Lightning"}}},
      {.DDPRUN_KEY(checkpoint, save_only_model),
       .meaning = "Checkpoints of only weights and buffers: smaller, but no run can resume from "
                  "them.",
       .aliases = {{"save_weights_only", "Lightning"}, {"last_save_model_only", "torchtitan"}}},
      {.DDPRUN_KEY(checkpoint, dir),
       .meaning = "Folder for checkpoints, each run's in a folder of its name: a disk that all "
                  "nodes share. Relative to the working directory.",
       .derived_default = "checkpoints in the run folder",
       .aliases = {{"dirpath", "Lightning"},
                   {"folder", "torchtitan"},
                   {"checkpoint_dir ckpt_dir", "PyTorch examples"}}},
  };
}

std::vector<Key> EvaluationKeys() {
  return {
      {.DDPRUN_KEY(evaluation, eval_steps),
       .meaning = "A validation pass after every so many steps or epochs; 0: only at the end.",
       .range = AtLeast(0),
       .counted = CountedIn::kSteps,
       .aliases = {{"eval_interval", "nanoGPT"},
                   {"val_check_interval", "Lightning"},
                   {"valid-freq", "Marian"},
                   {"eval_freq", "torchtitan"},
                   {"eval_every", "PyTorch examples"},
                   {"val_loss_every", "llm.c"},
                   {"val_interval", "MMEngine"},
                   {"eval_strategy evaluation_strategy", "Hugging Face",
                    "For \"epoch\" write \"1 epoch\"."},
                   {"check_val_every_n_epoch", "Lightning", "For 2 write \"2 epochs\"."}}},
      {.DDPRUN_KEY(evaluation, eval_on_start),
       .meaning = "Evaluates before the first step, too. This evaluation is reported, and decides "
                  "neither about the best step nor about the learning rate.",
       .aliases = {{"num_sanity_val_steps", "Lightning",
                    "There it is a number of batches; data.max_eval_samples limits all "
                    "evaluations."}}},
      {.DDPRUN_KEY(evaluation, metrics),
       .meaning = "Any of \"accuracy\", \"precision\", \"recall\", \"f1\", \"f1_macro\", \"mcc\", "
                  "\"roc_auc\", \"perplexity\", \"mse\", \"rmse\", \"mae\", \"r2\", "
                  "\"confusion_matrix\", as in "
                  "scikit-learn: docs/metrics.md. Empty: accuracy for classes, perplexity for "
                  "tokens. A plugin's own metrics are always computed. Exact over the ranks.",
       .aliases = {{"compute_metrics", "Hugging Face"},
                   {"valid-metrics", "Marian"},
                   {"metric", "PyTorch examples"}}},
      {.DDPRUN_KEY(evaluation, early_stopping_patience),
       .meaning = "The run ends after so many evaluations in a row that did not improve the metric "
                  "of checkpoint.save_best, or else the loss; 0: it never ends early.",
       .unit = "evaluations",
       .range = AtLeast(0),
       .aliases = {{"early_stopping", "Marian"},
                   {"patience", "Lightning"},
                   {"early_stop", "PyTorch examples"}}},
      {.DDPRUN_KEY(evaluation, early_stopping_threshold),
       .meaning = "The metric must be better than the best by more than this to improve.",
       .range = AtLeast(0),
       .aliases = {{"min_delta", "Lightning"}}},
  };
}

std::vector<Key> SampleKeys() {
  return {
      {.DDPRUN_KEY(evaluation, sample_prompt),
       .meaning = "Beginning of the text that is generated at the end of the run.",
       .only_for = {"model.type", {"gpt", "llama"}},
       .aliases = {{"start", "nanoGPT"}, {"prompt", "torchtitan"}}},
      {.DDPRUN_KEY(evaluation, sample_length),
       .meaning = "Length of the text generated at the end of the run; 0: none.",
       .unit = "tokens",
       .range = Between(0, 1 << 20),
       .only_for = {"model.type", {"gpt", "llama"}},
       .aliases = {{"max_new_tokens", "nanoGPT"}}},
      {.DDPRUN_KEY(evaluation, sample_temperature),
       .meaning = "Below 1 the sample is more predictable, above 1 more surprising.",
       .range = Above(0),
       .only_for = {"model.type", {"gpt", "llama"}},
       .aliases = {{"temperature", "nanoGPT"}}},
      {.DDPRUN_KEY(evaluation, sample_top_k),
       .meaning = "Each token of the sample is one of this many likeliest tokens; 0: any.",
       .unit = "tokens",
       .range = kSizeOrZero,
       .only_for = {"model.type", {"gpt", "llama"}},
       .aliases = {{"top_k", "nanoGPT"}}},
      {.DDPRUN_KEY(evaluation, sample_top_p),
       .meaning = "Each token of the sample is one of the likeliest tokens that together have "
                  "this probability; 1: any.",
       .range = {.min = 0, .max = 1, .min_excluded = true},
       .only_for = {"model.type", {"gpt", "llama"}},
       .aliases = {{"top_p", "Hugging Face"}}},
  };
}

std::vector<Key> ReportKeys() {
  return {
      {.DDPRUN_KEY(report, logging_steps),
       .meaning = "A log line and a metrics.jsonl line after every so many steps.",
       .unit = "optimizer steps",
       .range = AtLeast(1),
       .derived_default = "10; with scheduler.range_test: 1",
       .aliases = {{"log_every_n_steps", "Lightning"},
                   {"log_interval", "nanoGPT"},
                   {"log_freq", "torchtitan"},
                   {"disp-freq", "Marian"},
                   {"steps_per_print", "DeepSpeed"},
                   {"print_freq print_every log_every", "PyTorch examples"},
                   {"logging_strategy", "Hugging Face"}}},
      {.DDPRUN_KEY(report, progress_bar),
       .meaning = "\"auto\" shows it on a terminal; without a terminal, log lines are printed.",
       .aliases = {{"enable_progress_bar", "Lightning"},
                   {"disable_tqdm", "Hugging Face", "Instead of true write \"off\"."},
                   {"tqdm", "PyTorch examples"}}},
      {.DDPRUN_KEY(report, state_hashes),
       .meaning = "Writes state_hashes.jsonl: after every step a hash of each gradient and "
                  "weight of every rank, for ddp-trainer diff. Costs a pass over all of them."},
      {.DDPRUN_KEY(report, tensorboard),
       .meaning = "Writes the numbers of metrics.jsonl to event files for TensorBoard, too, in the "
                  "folder tensorboard of the run folder.",
       .aliases = {{"enable_tensorboard", "torchtitan"},
                   {"report_to", "Hugging Face", "For \"tensorboard\" write true."},
                   {"logging_dir", "Hugging Face", "It is tensorboard in the run folder."},
                   {"tb_log_dir", "PyTorch examples"}}},
      {.DDPRUN_KEY(report, on_event),
       .meaning = "A shell command, which rank 0 starts at the start, at checkpoints, evaluations, "
                  "tests and the end of the run, with a JSON object on its standard input. "
                  "Training does not wait for it. Empty: none."},
      {.DDPRUN_KEY(report, plugin),
       .meaning = "Shared object with an observer of the run, which rank 0 calls after steps, "
                  "evaluations and checkpoints: docs/plugins.md. Empty: none.",
       .input_path = true},
      {.DDPRUN_KEY(report, options),
       .meaning = "An object that the plugin's observer gets unchanged."},
      {.DDPRUN_KEY(report, trace_steps),
       .meaning = "The first and the last of some steps, such as [10, 12]. Writes trace.json: what "
                  "each rank did in them, for Perfetto. Empty: no trace.",
       .unit = "optimizer steps",
       .range = AtLeast(1),
       .aliases = {{"profile_step_start profile_step_end", "Megatron"},
                   {"profiler_active profile_steps", "PyTorch examples"}}},
  };
}

}  // namespace ddprun::trainer

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/config/checker.h"
#include "trainer/config/foreign_names.h"

namespace ddprun::trainer {

void Checker::CheckRun() {
  const RunConfig& run = config_.run;
  if (run.max_steps == 0) {
    Conflict("run.max_steps", "A run of 0 steps trains nothing:",
             "Set it to -1 to train as long as run.max_epochs says. Evaluating without training is "
             "not there yet.");
  }
  for (const std::filesystem::path& part : std::filesystem::path(run.name)) {
    if (part != "..") continue;
    Conflict("run.name", "A name with \"..\" in it leaves the folder of runs:",
             "Say with run.output_dir where runs are kept; run.name is a folder there.");
    break;
  }
  const std::array<std::string_view, 2> devices = {"auto", "cpu"};
  if (std::ranges::find(devices, run.device) == devices.end()) {
    problems_->Add(entries_.ErrorAbout(
        "run.device", {.title = "UNKNOWN CHOICE",
                       .page = "unknown-choice",
                       .found = "\"" + run.device + "\" is no device to train on:",
                       .expected = "Accepted: \"auto\" or \"cpu\".",
                       .hint = ChoiceHint("run.device", run.device, devices)}));
  }
}

void Checker::CheckRecomputation() {
  const ModelType type = config_.model.type;
  if (!config_.training.gradient_checkpointing ||
      (type != ModelType::kTorchScript && type != ModelType::kPlugin)) {
    return;
  }
  Conflict("training.gradient_checkpointing",
           "model.type \"" + std::string(Word(type)) +
               "\" brings code of its own, whose blocks are not known here:",
           "Remove the key; the model's own code can recompute what it wants.");
}

void Checker::CheckVirtualRanks() {
  if (config_.training.virtual_ranks == 0) return;
  const StrategyConfig& strategy = config_.strategy;
  if (strategy.type == StrategyType::kSingle) {
    Conflict("strategy.type",
             "training.virtual_ranks needs data parallelism, be it of one process:",
             "Remove one of the two keys.");
  }
  if (strategy.comm_hook != CommHookType::kNone) {
    Conflict("strategy.comm_hook",
             "A hook works on what each process sends, so that its bits depend on their number, "
             "but training.virtual_ranks promises the same for any:",
             "Remove one of the two keys.");
  }
  if (!strategy.broadcast_buffers) {
    Conflict("strategy.broadcast_buffers",
             "Virtual ranks begin every step with the same buffers, so this cannot be false:",
             "Remove the key, or training.virtual_ranks.");
  }
}

void Checker::CheckScheduler() {
  const double warmup = config_.scheduler.warmup_steps;
  if (warmup < 1 || std::trunc(warmup) == warmup) return;
  Conflict("scheduler.warmup_steps",
           "From 1 on this is a number of steps, which cannot have a fraction:",
           "Below 1 it is a share of the run: 0.1 warms up over the first tenth.");
}

void Checker::CheckStrategy() {
  if (!config_.strategy.gradient_as_bucket_view) {
    Conflict("strategy.gradient_as_bucket_view",
             "Gradients are always views of their buckets here, so this cannot be false:",
             "Remove the key. No gradient is kept twice, and none is copied back.");
  }
  CheckEarlyUpdate();
  if (config_.strategy.bucket_cap_mb.automatic && Given("strategy.first_bucket_mb")) {
    Config config = config_;
    Config defaults;
    const Slot size(&config.strategy.first_bucket_mb);
    if (SlotText(size) == SlotText(&defaults.strategy.first_bucket_mb)) return;
    Conflict("strategy.first_bucket_mb",
             "strategy.bucket_cap_mb \"auto\" finds the size of the first bucket, too:",
             "Remove one of the two keys.");
  }
}

// Updates that begin before the norm of all gradients is known.
void Checker::CheckEarlyUpdate() {
  const StrategyConfig& strategy = config_.strategy;
  const bool in_step = strategy.overlap == Overlap::kStep || strategy.overlap == Overlap::kBoth;
  if (!in_step && !strategy.optimizer_in_backward) return;
  const std::string key = in_step ? "strategy.overlap" : "strategy.optimizer_in_backward";
  if (in_step && strategy.optimizer_in_backward) {
    Conflict("strategy.optimizer_in_backward",
             "Parameters are updated in backward, but strategy.overlap waits for gradients after "
             "it:",
             "Remove one of the two keys.");
  }
  Config config = config_;
  if (config.training.max_grad_norm == 0) return;
  Conflict(key,
           "The optimizer starts before all gradients are reduced, but training.max_grad_norm (" +
               SlotText(&config.training.max_grad_norm) + ") needs the norm of all:",
           in_step ? "Set training.max_grad_norm to 0, or strategy.overlap to \"backward\"."
                   : "Set training.max_grad_norm to 0, or remove the key.");
}

// Transformers have their own kind of loss, and a plugin's model brings its own.
void Checker::CheckLoss() {
  const TrainingConfig& training = config_.training;
  const ModelType type = config_.model.type;
  const std::string model = "model.type \"" + std::string(Word(type)) + "\"";
  const bool tokens = type == ModelType::kGpt || type == ModelType::kLlama;
  const bool plugin = type == ModelType::kPlugin;
  const bool foreign = (tokens && training.loss == Loss::kMse) ||
                       (type == ModelType::kBert && training.loss == Loss::kCausalLm) ||
                       (plugin && training.loss != Loss::kAuto);
  if (foreign) {
    Conflict("training.loss",
             model + " has another loss:", "Remove the key: \"auto\" is the model's own.");
  }
  if (plugin && training.label_smoothing > 0) {
    Conflict("training.label_smoothing", model + " brings its own loss:",
             "Remove the key, or have the plugin smooth its targets.");
  }
}

void Checker::CheckCheckpoints() {
  const std::string& best = config_.checkpoint.save_best;
  const std::vector<std::string>& metrics = config_.evaluation.metrics;
  const auto words = WordsOf(Metric{});
  const bool known = best.empty() || best == "loss" || std::ranges::count(words, best) > 0;
  if (!known && config_.model.type != ModelType::kPlugin) {
    Conflict("checkpoint.save_best", "\"" + best + "\" is neither \"loss\" nor a metric:",
             ChoiceHint("checkpoint.save_best", best, words));
  } else if (known && !best.empty() && best != "loss" && !metrics.empty() &&
             std::ranges::count(metrics, best) == 0) {
    Conflict("checkpoint.save_best", "\"" + best + "\" is not computed in this run:",
             "Add it to evaluation.metrics.");
  }
  const RunConfig& run = config_.run;
  if (run.resume == "auto" && run.name.empty() && run.output_dir.find("{name}") != run.name.npos) {
    Conflict("run.resume", "The run has no name, so that its folder is a new one at each start:",
             "Set run.name, or name the folder to go on from.");
  }
}

void Checker::CheckMetrics() {
  const auto words = WordsOf(Metric{});
  const std::vector<std::string> known(words.begin(), words.end());
  for (const std::string& metric : config_.evaluation.metrics) {
    if (std::ranges::find(known, metric) != known.end()) continue;
    std::string accepted;
    for (const std::string& word : known)
      accepted += (accepted.empty() ? "\"" : ", \"") + word + "\"";
    const std::string hint =
        config_.model.type == ModelType::kPlugin
            ? "A plugin's own metrics are not named here: all of them are computed."
            : ChoiceHint("evaluation.metrics", metric, words);
    problems_->Add(entries_.ErrorAbout("evaluation.metrics",
                                       {.title = "UNKNOWN CHOICE",
                                        .page = "unknown-choice",
                                        .found = "\"" + metric + "\" is no metric:",
                                        .expected = "Accepted: a list of " + accepted + ".",
                                        .hint = hint}));
  }
}

}  // namespace ddprun::trainer

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/text.h"
#include "trainer/config/checker.h"
#include "trainer/config/config_warnings.h"
#include "trainer/config/foreign_names.h"

namespace ddprun::trainer {

namespace {

// "cuda:" and a number.
bool NamesGpu(const std::string& device) {
  const std::string prefix = "cuda:";
  const size_t digits = device.size() - std::min(device.size(), prefix.size());
  return device.starts_with(prefix) && digits > 0 && digits < 4 &&
         device.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

}  // namespace

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
  const std::array<std::string_view, 3> devices = {"auto", "cpu", "cuda"};
  if (!NamesGpu(run.device)) CheckWord("run.device", run.device, devices, "device to train on");
  const std::array<std::string_view, 3> recoveries = {"auto", "peer", "none"};
  CheckWord("run.recovery", run.recovery, recoveries, "way to recover");
  const std::string obstacle = run.recovery == "peer" ? RecoveryObstacle(config_) : "";
  if (!obstacle.empty()) {
    Conflict("run.recovery",
             "With " + obstacle + " a step cannot be done again from what other ranks have:",
             "Remove one of the two keys: \"auto\" recovers where it can.");
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
  if (strategy.type == StrategyType::kSingle || strategy.type == StrategyType::kDp) {
    Conflict("strategy.type", "training.virtual_ranks needs \"ddp\", be it with one process:",
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

void Checker::CheckTensorParallel() {
  const StrategyConfig& strategy = config_.strategy;
  const bool all = strategy.type == StrategyType::kTensorParallel;
  if (!all && strategy.tensor_parallel_size <= 1) return;
  const std::string key = all ? "strategy.type" : "strategy.tensor_parallel_size";
  const ModelType model = config_.model.type;
  const bool splits = model == ModelType::kGpt || model == ModelType::kLlama ||
                      model == ModelType::kBert || model == ModelType::kMlp ||
                      model == ModelType::kLinear;
  if (!splits) {
    Conflict(key,
             "Ranks share out the layers of gpt, llama, bert, mlp and linear models, not those of "
             "model.type \"" +
                 std::string(Word(model)) + "\":",
             "Take strategy.type \"ddp\", where every rank has the whole model.");
  }
  const auto refuse_if = [&](bool set, const char* other, const std::string& why) {
    if (set)
      Conflict(other, "Ranks have parts of layers (" + key + "), but " + why + ":",
               "Remove one of the two keys.");
  };
  refuse_if(config_.training.virtual_ranks > 0, "training.virtual_ranks",
            "a virtual rank computes all of the model");
  refuse_if(strategy.comm_hook == CommHookType::kPowerSgd ||
                strategy.comm_hook == CommHookType::kPostLocalSgd,
            "strategy.comm_hook", "this hook is for whole models; \"fp16\" and \"bf16\" are not");
  refuse_if(config_.report.state_hashes, "report.state_hashes", "a hash is of whole weights");
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
  CheckLossScaling();
  CheckDevices();
  if (config_.strategy.type == StrategyType::kDp) CheckDataParallel();
  CheckPipeline();
  if (config_.strategy.bucket_cap_mb.automatic && Given("strategy.first_bucket_mb")) {
    if (IsDefault(GetKey("strategy.first_bucket_mb"), config_)) return;
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
  if (config.training.precision == Precision::kFp16) {
    Conflict(key,
             "The optimizer starts before all gradients are reduced, but with training.precision "
             "\"fp16\" a step is skipped where any of them is not finite:",
             in_step ? "Set strategy.overlap to \"backward\", or take another precision."
                     : "Remove the key, or take another precision.");
  }
  if (config.training.max_grad_norm == 0) return;
  Conflict(key,
           "The optimizer starts before all gradients are reduced, but training.max_grad_norm (" +
               SlotText(&config.training.max_grad_norm) + ") needs the norm of all:",
           in_step ? "Set training.max_grad_norm to 0, or strategy.overlap to \"backward\"."
                   : "Set training.max_grad_norm to 0, or remove the key.");
}

// Gradients that are not finite are part of finding the scale.
void Checker::CheckLossScaling() {
  const StrategyConfig& strategy = config_.strategy;
  if (config_.training.precision != Precision::kFp16) return;
  const std::string other = "Remove the key, or take another training.precision.";
  if (strategy.check_finite) {
    Conflict("strategy.check_finite",
             "With training.precision \"fp16\" some gradients are not finite: their step is "
             "skipped and the loss scale halved, but this ends the run:",
             other);
  }
  if (strategy.comm_hook == CommHookType::kPowerSgd) {
    Conflict("strategy.comm_hook",
             "PowerSGD adds what it leaves out of a gradient to the next one; with "
             "training.precision \"fp16\" one that is not finite would never go away:",
             other);
  }
  if (strategy.comm_hook == CommHookType::kPostLocalSgd) {
    Conflict("strategy.comm_hook",
             "Ranks that train on their own would each find a loss scale of their own for "
             "training.precision \"fp16\":",
             other);
  }
}

void Checker::CheckDevices() {
  const std::vector<std::string>& devices = config_.strategy.devices;
  const auto bad = std::ranges::find_if_not(
      devices, [](const std::string& device) { return device == "cpu" || NamesGpu(device); });
  if (bad != devices.end()) {
    UnknownChoice("strategy.devices", *bad, "device to train on",
                  "a list of \"cpu\" or \"cuda:0\", \"cuda:1\" and so on",
                  "[\"cpu\", \"cpu\"] shares the cores between two.");
  }
  const auto is_gpu = [](const std::string& device) { return device.starts_with("cuda"); };
  const bool other = config_.run.device == "cpu" && std::ranges::any_of(devices, is_gpu);
  if (other || (!devices.empty() && NamesGpu(config_.run.device))) {
    Conflict("strategy.devices",
             "run.device is \"" + config_.run.device + "\":", "Remove one of the two.");
  }
}

void Checker::CheckDataParallel() {
  const StrategyConfig& strategy = config_.strategy;
  if (strategy.devices.empty()) Missing("strategy.devices", "strategy.type \"dp\"");
  const auto count = static_cast<int64_t>(strategy.devices.size());
  if (count > 0 && strategy.output_device >= count) {
    Conflict("strategy.output_device",
             "strategy.devices has " + std::to_string(count) + ", counted from 0:",
             "Give a number below " + std::to_string(count) + ".");
  }
  const auto is_cpu = [](const std::string& device) { return device == "cpu"; };
  if (std::ranges::any_of(strategy.devices, is_cpu) &&
      !std::ranges::all_of(strategy.devices, is_cpu)) {
    Conflict("strategy.devices", "The devices of \"dp\" have to be of one kind:",
             "Each gets as many samples as the others, so that a step is as slow as the slowest.");
  }
  const ModelType type = config_.model.type;
  if (type == ModelType::kTorchScript || type == ModelType::kPlugin) {
    Conflict("strategy.type",
             "\"dp\" runs copies of the model at the same time in one process; model.type \"" +
                 std::string(Word(type)) + "\" brings code of its own, which may not bear that:",
             "Take \"ddp\", which has a process for each.");
  }
  // What is between processes.
  for (const std::string_view path :
       {"strategy.bucket_cap_mb", "strategy.first_bucket_mb", "strategy.overlap",
        "strategy.optimizer_in_backward", "strategy.find_unused_parameters",
        "strategy.static_graph", "strategy.broadcast_buffers", "strategy.check_finite",
        "strategy.comm_hook", "comm.algorithm"}) {
    if (IsDefault(GetKey(path), config_)) continue;
    Conflict(path, "strategy.type \"dp\" is one process, which sends no gradients to others:",
             "Remove the key, or take \"ddp\".");
  }
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
    Conflict("checkpoint.save_best",
             "\"" + best + "\" is not computed in this run:", "Add it to evaluation.metrics.");
  }
  const RunConfig& run = config_.run;
  if (run.resume == "auto" && run.name.empty() && run.output_dir.find("{name}") != run.name.npos) {
    Conflict("run.resume", "The run has no name, so that its folder is a new one at each start:",
             "Set run.name, or name the folder to go on from.");
  }
}

void Checker::CheckMetrics() {
  const auto words = WordsOf(Metric{});
  for (const std::string& metric : config_.evaluation.metrics) {
    if (std::ranges::find(words, metric) != words.end()) continue;
    const std::string hint =
        config_.model.type == ModelType::kPlugin
            ? "A plugin's own metrics are not named here: all of them are computed."
            : ChoiceHint("evaluation.metrics", metric, words);
    UnknownChoice("evaluation.metrics", metric, "metric",
                  "a list of " + FormatList(words, ", ", "\""), hint);
  }
  // What the targets are is known of all data but a plugin's.
  const DataConfig& data = config_.data;
  if (data.format == DataFormat::kPlugin || config_.model.type == ModelType::kPlugin) return;
  const bool table = data.format == DataFormat::kCsv;
  const bool numbers =
      data.format == DataFormat::kRandom || (table && data.target_type == TargetType::kNumber);
  for (const std::string& metric : config_.evaluation.metrics) {
    const bool fits_both =
        metric == Word(Metric::kPerplexity) || std::ranges::count(words, metric) == 0;
    const bool of_numbers = metric == Word(Metric::kMse) || metric == Word(Metric::kMae);
    if (fits_both || of_numbers == numbers) continue;
    const std::string kind = numbers ? "numbers" : "classes or tokens";
    Conflict("evaluation.metrics",
             "\"" + metric + "\" is a metric of " + (of_numbers ? "numbers" : "classes") +
                 ", but this data has " + kind + " to predict:",
             table ? "Take other metrics, or change data.target_type." : "Take other metrics.");
  }
}

}  // namespace ddprun::trainer

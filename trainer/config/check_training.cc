#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/text.h"
#include "trainer/config/checker.h"
#include "trainer/config/device_name.h"
#include "trainer/config/foreign_names.h"
#include "trainer/config/parallel_dims.h"

namespace ddprun::trainer {

namespace {

void CheckDevices(Checker& check) {
  const StrategyConfig& strategy = check.config.strategy;
  const std::vector<std::string>& devices = strategy.devices;
  const ParallelDims dims = *ResolveDims(check.config, 0);
  if (devices.empty() && (dims.one_by_one || dims.replicas == Replicas::kDevices)) {
    check.Missing("strategy.devices", "strategy.type \"" + std::string(Word(strategy.type)) + "\"");
  }
  if (devices.empty()) return;
  const auto bad = std::ranges::find_if_not(
      devices, [](const std::string& device) { return device == "cpu" || NamesGpu(device); });
  if (bad != devices.end()) {
    check.UnknownChoice("strategy.devices", *bad, "device to train on",
                        "a list of \"cpu\" or \"cuda:0\", \"cuda:1\" and so on",
                        "[\"cpu\", \"cpu\"] shares the cores between two.");
  }
  const auto is_cpu = [](const std::string& device) { return device == "cpu"; };
  const bool all_on_cpu = std::ranges::all_of(devices, is_cpu);
  if ((check.config.run.device == "cpu" && !all_on_cpu) || NamesGpu(check.config.run.device)) {
    check.Conflict("strategy.devices",
                   "run.device is \"" + check.config.run.device + "\":", "Remove one of the two.");
  }
  const auto count = static_cast<int64_t>(devices.size());
  if (strategy.output_device >= count) {
    check.Conflict("strategy.output_device",
                   "strategy.devices has " + std::to_string(count) + ", counted from 0:",
                   "Give a number below " + std::to_string(count) + ".");
  }
  if (dims.replicas == Replicas::kDevices && !all_on_cpu && std::ranges::any_of(devices, is_cpu)) {
    check.Conflict(
        "strategy.devices", "The devices of \"dp\" have to be of one kind:",
        "Each gets as many samples as the others, so that a step is as slow as the slowest.");
  }
}

void CheckPipeline(Checker& check) {
  const ParallelDims dims = *ResolveDims(check.config, 0);
  if (dims.in_stages || dims.replicas != Replicas::kShardOptimizer) return;
  for (const std::string_view path :
       {"strategy.pipeline_schedule", "strategy.pipeline_micro_batches",
        "strategy.layers_per_stage"}) {
    if (IsDefault(GetKey(path), check.config)) continue;
    check.Conflict(
        path,
        "strategy.type \"zero1\" has pipeline stages only with strategy.pipeline_parallel_size:",
        "Set strategy.pipeline_parallel_size, or remove the key.");
  }
}

void CheckTrace(Checker& check) {
  const std::vector<int64_t>& steps = check.config.report.trace_steps;
  if (steps.empty()) return;
  if (steps.size() != 2 || steps[0] > steps[1]) {
    return check.Conflict("report.trace_steps", "It needs the first and the last of some steps:",
                          "Write two numbers, such as [10, 12].");
  }
  const int64_t end = check.config.run.max_steps;
  if (end <= 0 || steps[1] <= end) return;
  check.Conflict("report.trace_steps",
                 "The run ends after step " + std::to_string(end) + ", before the last of them:",
                 "The trace is written after its last step: name earlier ones.");
}

}  // namespace

void CheckRun(Checker& check) {
  const RunConfig& run = check.config.run;
  CheckTrace(check);
  if (run.max_steps == 0) {
    check.Conflict(
        "run.max_steps", "A run of 0 steps trains nothing:",
        "Set it to -1 to train as long as run.max_epochs says. Evaluating without training is "
        "not there yet.");
  }
  for (const std::filesystem::path& part : std::filesystem::path(run.name)) {
    if (part != "..") continue;
    check.Conflict("run.name", "A name with \"..\" in it leaves the folder of runs:",
                   "Say with run.output_dir where runs are kept; run.name is a folder there.");
    break;
  }
  if (!NamesDevice(run.device)) {
    check.CheckWord("run.device", run.device, kDeviceWords, "device to train on");
  }
  const std::array<std::string_view, 4> recoveries = {"auto", "peer", "memory", "none"};
  check.CheckWord("run.recovery", run.recovery, recoveries, "way to recover");
}

void CheckOptimizer(Checker& check) {
  CheckParameterFactors(check);
  const OptimizerConfig& optimizer = check.config.optimizer;
  if (!optimizer.nesterov || (optimizer.momentum > 0 && optimizer.dampening == 0)) return;
  check.Conflict("optimizer.nesterov", "Nesterov's update needs a momentum without dampening:",
                 "Set optimizer.momentum above 0, such as 0.9, and no optimizer.dampening.");
}

void CheckScheduler(Checker& check) {
  const SchedulerConfig& scheduler = check.config.scheduler;
  if (StepsOf(scheduler.step_size, 1) == 0) {
    check.Conflict("scheduler.step_size", "The learning rate cannot fall after every 0 steps:",
                   "Write \"1000 steps\" or \"30 epochs\".");
  }
  const bool at_milestones = scheduler.lr_scheduler_type == LrSchedulerType::kMultiStep;
  if (at_milestones && scheduler.milestones.empty()) {
    check.Missing("scheduler.milestones", "scheduler.lr_scheduler_type \"multi_step\"");
  }
  if (scheduler.lr_scheduler_type == LrSchedulerType::kOneCycle && scheduler.warmup_steps > 0) {
    check.Conflict("scheduler.warmup_steps", "\"one_cycle\" has its own way to rise:",
                   "Set scheduler.pct_start, the share of the run in which it rises.");
  }
  const std::vector<double>& ends = scheduler.range_test;
  if (!ends.empty() && (ends.size() != 2 || ends[0] >= ends[1])) {
    check.Conflict("scheduler.range_test", "A search has a first and a higher last learning rate:",
                   "Write two numbers, such as [1e-7, 1].");
  }
  if (!ends.empty() && check.config.optimizer.learning_rate == 0) {
    check.Conflict("optimizer.learning_rate", "scheduler.range_test takes shares of it:",
                   "Remove the key, or give a number above 0.");
  }
  std::vector<std::pair<const char*, double>> given = {
      {"scheduler.warmup_steps", scheduler.warmup_steps},
      {"scheduler.decay_steps", scheduler.decay_steps}};
  for (const double steps : scheduler.milestones) given.emplace_back("scheduler.milestones", steps);
  for (const auto& [path, steps] : given) {
    if (steps < 1 || std::trunc(steps) == steps) continue;
    check.Conflict(path, "From 1 on this is a number of steps, which cannot have a fraction:",
                   "Below 1 it is a share of the run: 0.1 is a tenth of it.");
  }
}

void CheckStrategy(Checker& check) {
  if (!check.config.strategy.gradient_as_bucket_view) {
    check.Conflict("strategy.gradient_as_bucket_view",
                   "Gradients are always views of their buckets here, so this cannot be false:",
                   "Remove the key. No gradient is kept twice, and none is copied back.");
  }
  CheckDevices(check);
  CheckPipeline(check);
}

// `own_loss` is whether the model's loss is not of classes, or unknown.
void CheckClassWeights(Checker& check, bool own_loss) {
  const TrainingConfig& training = check.config.training;
  if (training.class_weights.empty() && !training.balance_classes) return;
  const std::string key =
      training.balance_classes ? "training.balance_classes" : "training.class_weights";
  const std::string remove = "Remove " + key + ", or ";
  if (training.balance_classes && !training.class_weights.empty()) {
    check.Conflict(key, "training.class_weights are given:", "Remove one of the two.");
  }
  if (own_loss || training.loss == Loss::kMse || training.loss == Loss::kCausalLm) {
    check.Conflict(key, "The loss is not one of classes:",
                   remove + "train a model of classes with their cross-entropy.");
  }
  // PyTorch's loss weighs the part of a target that all classes share by every class.
  if (training.label_smoothing > 0) {
    check.Conflict(key, "training.label_smoothing changes the targets that they weigh:",
                   remove + "training.label_smoothing.");
  }
}

// Transformers have their own kind of loss, and a plugin's model brings its own.
void CheckLoss(Checker& check) {
  const TrainingConfig& training = check.config.training;
  const ModelType type = check.config.model.type;
  const std::string model = "model.type \"" + std::string(Word(type)) + "\"";
  const bool tokens = type == ModelType::kGpt || type == ModelType::kLlama;
  const bool plugin = type == ModelType::kPlugin;
  const bool foreign = (tokens && training.loss == Loss::kMse) ||
                       (type == ModelType::kBert && training.loss == Loss::kCausalLm) ||
                       (plugin && training.loss != Loss::kAuto);
  if (foreign) {
    check.Conflict("training.loss",
                   model + " has another loss:", "Remove the key: \"auto\" is the model's own.");
  }
  if (plugin && training.label_smoothing > 0) {
    check.Conflict("training.label_smoothing", model + " brings its own loss:",
                   "Remove the key, or have the plugin smooth its targets.");
  }
  CheckClassWeights(check, tokens || plugin);
}

// Returns whether an evaluation may have the metric without evaluation.metrics: the data decides.
bool IsOfTask(const Config& config, std::string_view metric) {
  const ModelType type = config.model.type;
  const DataConfig& data = config.data;
  if (type == ModelType::kPlugin) return true;
  const bool tokens = type == ModelType::kGpt || type == ModelType::kLlama;
  const bool any = type == ModelType::kTorchScript || data.format == DataFormat::kPlugin;
  if (metric == Word(Metric::kPerplexity)) return tokens || any;
  const bool classes =
      !tokens && data.format != DataFormat::kRandom && data.target_type == TargetType::kClass;
  return metric == Word(Metric::kAccuracy) && (classes || any);
}

void CheckCheckpoints(Checker& check) {
  const std::string& best = check.config.checkpoint.save_best;
  const std::vector<std::string>& metrics = check.config.evaluation.metrics;
  const auto words = WordsOf(Metric{});
  const bool known = best.empty() || best == "loss" || std::ranges::count(words, best) > 0;
  if (best == Word(Metric::kConfusionMatrix)) {
    check.Conflict("checkpoint.save_best", "A confusion matrix is no number to compare steps by:",
                   "Name \"loss\" or a metric that is a number, such as \"f1_macro\".");
  }
  if (!known && check.config.model.type != ModelType::kPlugin) {
    check.Conflict("checkpoint.save_best", "\"" + best + "\" is neither \"loss\" nor a metric:",
                   ChoiceHint("checkpoint.save_best", best, words));
  } else if (known && !best.empty() && best != "loss" && std::ranges::count(metrics, best) == 0 &&
             (!metrics.empty() || !IsOfTask(check.config, best))) {
    check.Conflict("checkpoint.save_best", "\"" + best + "\" is not computed in this run:",
                   "Add it to evaluation.metrics.");
  }
  if (check.config.checkpoint.load_best_model_at_end && best.empty()) {
    check.Conflict("checkpoint.load_best_model_at_end", "checkpoint.save_best is empty:",
                   "Name the metric that decides which step is the best: \"loss\".");
  }
  const RunConfig& run = check.config.run;
  if (run.resume == "auto" && run.name.empty() && run.output_dir.find("{name}") != run.name.npos) {
    check.Conflict("run.resume",
                   "The run has no name, so that its folder is a new one at each start:",
                   "Set run.name, or name the folder to go on from.");
  }
}

void CheckMetrics(Checker& check) {
  const auto words = WordsOf(Metric{});
  for (const std::string& metric : check.config.evaluation.metrics) {
    if (std::ranges::find(words, metric) != words.end()) continue;
    const std::string hint =
        check.config.model.type == ModelType::kPlugin
            ? "A plugin's own metrics are not named here: all of them are computed."
            : ChoiceHint("evaluation.metrics", metric, words);
    check.UnknownChoice("evaluation.metrics", metric, "metric",
                        "a list of " + FormatList(words, ", ", "\""), hint);
  }
  // The type of the targets is known, except for a plugin's data.
  const DataConfig& data = check.config.data;
  if (data.format == DataFormat::kPlugin || check.config.model.type == ModelType::kPlugin) return;
  const bool table = data.format == DataFormat::kCsv;
  const bool numbers =
      data.format == DataFormat::kRandom || (table && data.target_type == TargetType::kNumber);
  for (const std::string& metric : check.config.evaluation.metrics) {
    const bool fits_both =
        metric == Word(Metric::kPerplexity) || std::ranges::count(words, metric) == 0;
    const bool of_numbers = metric == Word(Metric::kMse) || metric == Word(Metric::kRmse) ||
                            metric == Word(Metric::kMae) || metric == Word(Metric::kR2);
    if (fits_both || of_numbers == numbers) continue;
    const std::string kind = numbers ? "numbers" : "classes or tokens";
    check.Conflict(
        "evaluation.metrics",
        "\"" + metric + "\" is a metric of " + (of_numbers ? "numbers" : "classes") +
            ", but this data has " + kind + " to predict:",
        table ? "Take other metrics, or change data.target_type." : "Take other metrics.");
  }
}

}  // namespace ddprun::trainer

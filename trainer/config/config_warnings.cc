#include "trainer/config/config_warnings.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

namespace {

class Warnings {
 public:
  Warnings(const Config& config, const RunFacts& facts) : config_(config), facts_(facts) {}

  std::vector<std::string> Take() {
    WarnOfRun();
    WarnOfBatches();
    WarnOfWarmup();
    WarnOfHooks();
    WarnOfSlowLink();
    WarnOfEvaluation();
    if (facts_.classes == 1) {
      Warn("data.train_files",
           "has samples of one class only, so that there is nothing to tell apart. Is this the "
           "right column or folder of labels?");
    }
    if (config_.checkpoint.save_best.empty()) {
      WarnIfGiven({"checkpoint.save_total_limit_best"}, "checkpoint.save_best is empty");
    }
    if (config_.evaluation.early_stopping_patience == 0) {
      WarnIfGiven({"evaluation.early_stopping_threshold"},
                  "evaluation.early_stopping_patience is 0");
    }
    if (config_.data.dataloader_num_workers == 0) {
      WarnIfGiven({"data.dataloader_prefetch_factor"}, "data.dataloader_num_workers is 0");
    }
    return std::move(warnings_);
  }

 private:
  void Warn(std::string_view key, const std::string& text) {
    warnings_.push_back(std::string(key) + " " + text);
  }

  // Warns about the keys of `paths` whose value is not their default.
  void WarnIfGiven(std::initializer_list<std::string_view> paths, const std::string& because) {
    for (const std::string_view path : paths) {
      if (!IsDefault(GetKey(path), config_)) Warn(path, "has no effect: " + because + ".");
    }
  }

  // Returns whether the run ends before or at this step.
  bool TooLate(int64_t steps) const {
    return facts_.total_steps > 0 && steps >= facts_.total_steps;
  }

  std::string RunLength() const { return "the run has " + CountText(facts_.total_steps, "step"); }

  void WarnOfRun() {
    if (config_.run.max_steps <= 0) return;
    WarnIfGiven({"run.max_epochs"}, "run.max_steps sets the length of the run");
  }

  void WarnOfBatches() {
    const TrainingConfig& training = config_.training;
    const int64_t samples = facts_.samples_per_rank;
    if (samples > 0 && training.per_device_train_batch_size > samples) {
      Warn("training.per_device_train_batch_size",
           "is " + std::to_string(training.per_device_train_batch_size) + ", but " +
               (facts_.ranks > 1 ? "each rank has "
                : samples == 1   ? "there is "
                                 : "there are ") +
               CountText(samples, "sample") + " in an epoch: its batches are that small.");
    }
    const int64_t batches = facts_.batches_per_epoch;
    if (batches > 0 && training.gradient_accumulation_steps > batches) {
      Warn("training.gradient_accumulation_steps",
           "is " + std::to_string(training.gradient_accumulation_steps) + ", but an epoch has " +
               CountText(batches, "micro-batch", "micro-batches") +
               " for each rank: a step takes no more.");
    }
  }

  void WarnOfWarmup() {
    const SchedulerConfig& scheduler = config_.scheduler;
    const int64_t total = facts_.total_steps;
    const double steps = scheduler.warmup_steps >= 1
                             ? scheduler.warmup_steps
                             : std::ceil(scheduler.warmup_steps * static_cast<double>(total));
    if (total == 0 || steps < static_cast<double>(total)) return;
    double warmup = scheduler.warmup_steps;
    const int shift = scheduler.warmup_from_zero ? 0 : 1;
    double highest =
        config_.optimizer.learning_rate * static_cast<double>(total - 1 + shift) / (steps + shift);
    Warn("scheduler.warmup_steps", "is " + SlotText(&warmup) + ", but " + RunLength() +
                                       ": the learning rate never rises above " +
                                       SlotText(&highest) + ".");
  }

  void WarnOfHooks() {
    const StrategyConfig& strategy = config_.strategy;
    const bool power = strategy.comm_hook == CommHookType::kPowerSgd;
    const bool local = strategy.comm_hook == CommHookType::kPostLocalSgd;
    if (power && TooLate(strategy.power_sgd_start_step)) {
      Warn("strategy.power_sgd_start_step", "is " + std::to_string(strategy.power_sgd_start_step) +
                                                ", but " + RunLength() +
                                                ": no gradient is compressed.");
    }
    if (local && TooLate(strategy.post_local_sgd_start_step)) {
      Warn("strategy.post_local_sgd_start_step",
           "is " + std::to_string(strategy.post_local_sgd_start_step) + ", but " + RunLength() +
               ": gradients are averaged in all of them.");
    }
  }

  void WarnOfSlowLink() {
    double link = config_.comm.emulated_link;
    if (link == 0) return;
    Warn("comm.emulated_link",
         "is " + SlotText(&link) +
             ": collectives wait as on a link of so many Gbit/s. Remove it from a "
             "run that is to be fast.");
  }

  void WarnOfEvaluation() {
    const EvaluationConfig& evaluation = config_.evaluation;
    const double every = StepsOf(evaluation.eval_steps, facts_.steps_per_epoch);
    if (!facts_.has_validation_data) {
      WarnIfGiven(
          {"evaluation.eval_steps", "evaluation.eval_on_start", "evaluation.metrics",
           "checkpoint.save_best", "evaluation.early_stopping_patience", "data.max_eval_samples"},
          "there is no validation data. Give data.validation_files or "
          "data.validation_fraction");
      if (config_.scheduler.lr_scheduler_type == LrSchedulerType::kReduceLrOnPlateau) {
        Warn("scheduler.lr_scheduler_type",
             "is \"reduce_lr_on_plateau\", but there is no validation data: the learning rate "
             "stays. Give data.validation_files or data.validation_fraction.");
      }
    } else if (facts_.total_steps > 0 && every > static_cast<double>(facts_.total_steps)) {
      Warn("evaluation.eval_steps", "is " + IntervalText(evaluation.eval_steps) + ", but " +
                                        RunLength() + ": there is one evaluation, at the end.");
    }
    if (evaluation.sample_length > 0) return;
    WarnIfGiven({"evaluation.sample_prompt", "evaluation.sample_temperature",
                 "evaluation.sample_top_k", "evaluation.sample_top_p"},
                "evaluation.sample_length is 0");
  }

  const Config& config_;
  const RunFacts& facts_;
  std::vector<std::string> warnings_;
};

}  // namespace

std::vector<std::string> ConfigWarnings(const Config& config, const RunFacts& facts) {
  return Warnings(config, facts).Take();
}

}  // namespace ddprun::trainer

#include "trainer/worker/compare_runs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/config/config_text.h"
#include "trainer/config/keys.h"
#include "trainer/data/data_files.h"
#include "trainer/job/open_data.h"
#include "trainer/job/run_text.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

FailureOfAllRanks CannotGoOn(const SavedRun& saved, std::string what, std::string hint) {
  return FailureOfAllRanks(Error{.code = Code::kUsage,
                                 .title = "CANNOT GO ON FROM THIS CHECKPOINT",
                                 .where = saved.path,
                                 .what = std::move(what),
                                 .hint = std::move(hint),
                                 .page = "cannot-resume"});
}

// Returns whether a run may change the key when it resumes.
bool IsFree(const Key& key) {
  constexpr std::array<std::string_view, 4> kSections = {"comm", "checkpoint", "evaluation",
                                                         "report"};
  constexpr std::array<std::string_view, 16> kKeys = {
      "run.name", "run.output_dir", "run.max_time", "run.resume", "run.device", "run.recovery",
      "data.dataloader_num_workers", "data.dataloader_prefetch_factor",
      // CompareRuns() compares the samples of a step instead.
      "training.per_device_train_batch_size", "training.gradient_accumulation_steps",
      "training.per_device_eval_batch_size", "training.gradient_checkpointing",
      "training.stop_on_bad_loss", "strategy.bucket_cap_mb", "strategy.first_bucket_mb",
      "strategy.overlap"};
  return std::ranges::find(kSections, key.section) != kSections.end() ||
         std::ranges::find(kKeys, key.Path()) != kKeys.end();
}

std::vector<std::string> ChangedKeys(const json& before, const json& now) {
  std::vector<std::string> lines;
  for (const Key& key : AllKeys()) {
    const json::json_pointer place =
        json::json_pointer() / std::string(key.section) / std::string(key.name);
    if (IsFree(key) || !before.contains(place) || before[place] == now[place]) continue;
    lines.push_back(key.Path() + " was " + before[place].dump() + " until here, and is " +
                    now[place].dump() + " from here on.");
  }
  return lines;
}

// Returns the metric by which a run of this config compares evaluations; nullopt: it compares none.
std::optional<std::string> ComparedMetric(const json& config) {
  const auto value = [&](const char* key, const auto& otherwise) {
    return config.value(json::json_pointer(key), otherwise);
  };
  const std::string best = value("/checkpoint/save_best", std::string());
  if (!best.empty()) return best;
  const bool compares = value("/evaluation/early_stopping_patience", 0) > 0 ||
                        value("/scheduler/lr_scheduler_type", std::string()) ==
                            Word(LrSchedulerType::kReduceLrOnPlateau);
  return compares ? std::optional<std::string>("loss") : std::nullopt;
}

// The best evaluation so far, and what early stopping and the scheduler remember, are numbers of
// one metric.
void CheckComparedMetric(const SavedRun& saved, const json& before, const json& now) {
  const auto was = ComparedMetric(before), is = ComparedMetric(now);
  if (!was || !is || *was == *is) return;
  throw CannotGoOn(
      saved, "Its run compared evaluations by \"" + *was + "\"; here it would be \"" + *is + "\".",
      "Set checkpoint.save_best to \"" + *was +
          "\", or begin a new run from its weights (model.name_or_path).");
}

// Returns the description without numbers: means and deviations of columns.
json WithoutNumbers(json description) {
  if (!description.is_structured()) return description.is_number() ? json() : description;
  for (json& item : description) item = WithoutNumbers(std::move(item));
  return description;
}

json ColumnNames(const json& table) {
  json names = json::array();
  for (const json& input : table.at("inputs")) names.push_back(input.at("column"));
  return names;
}

// The same outputs and inputs of the model must have the same meaning: labels are sorted, and
// columns are in the order of the file.
void CompareData(const SavedRun& saved,
                 const json& before,
                 const Job& job,
                 std::vector<std::string>& changed) {
  const json now = DescribeData(job);
  // Names may not be UTF-8.
  const auto text = [](const json& names) {
    return ShortenForMessage(names.dump(-1, ' ', false, json::error_handler_t::replace));
  };
  const auto refuse = [&](const std::string& what, const json& was, const json& is) {
    return CannotGoOn(saved,
                      "The " + what + " of the training data were " + text(was) + ", and are " +
                          text(is) + " now.\nThe model would take them for the old ones.",
                      "Train on data with the same " + what + " in the same order.");
  };
  const json labels = before.value("labels", json());
  if (labels != now["labels"]) throw refuse("labels", labels, now["labels"]);
  const json table = before.value("table", json());
  if (!table.is_object() || !now.contains("table")) return;
  const auto compare = [&](const std::string& what, const auto& part) {
    if (part(table) != part(now["table"])) throw refuse(what, part(table), part(now["table"]));
  };
  compare("columns", ColumnNames);
  compare("categories", WithoutNumbers);
  if (table != now["table"]) {
    changed.push_back(
        "The means and deviations of the training data, by which the model's inputs are scaled, "
        "have changed: it has other rows.");
  }
}

}  // namespace

SavedRun::SavedRun(const Checkpoint& checkpoint)
    : path(checkpoint.path()),
      run(checkpoint.run()),
      model_only(std::ranges::all_of(checkpoint.tensors(), [](const auto& tensor) {
        return tensor.first.starts_with("model.");
      })) {}

std::vector<std::string> CompareRuns(const SavedRun& saved, const Job& job, const StepPlan& plan) {
  const auto refuse = [&](std::string what, std::string hint) {
    return CannotGoOn(saved, std::move(what), std::move(hint));
  };
  if (saved.model_only) {
    throw refuse("It holds the model alone, not what a run needs to go on.",
                 "It was saved with checkpoint.save_only_model.");
  }
  const json run = ReadRunText(saved.run);
  if (!run.contains("config")) return {};
  const json now = json::parse(WriteResolvedConfig(job.config));
  CheckComparedMetric(saved, run["config"], now);
  std::vector<std::string> changed = ChangedKeys(run["config"], now);
  if (run.contains("data")) CompareData(saved, run["data"], job, changed);
  const int64_t samples = run.value("step_samples", plan.step_samples);
  const int64_t ranks = run.value("world_size", plan.data_ranks);
  if (samples != plan.step_samples) {
    const auto of_ranks = [](int64_t count) { return CountText(count, "rank"); };
    const std::string what = "A step of the saved run took " + std::to_string(samples) +
                             " samples on " + of_ranks(ranks) + "; here it takes " +
                             std::to_string(plan.step_samples) + " on " +
                             of_ranks(plan.data_ranks) + ".";
    if (job.config.run.max_steps <= 0) {
      throw refuse(what + " The steps of an epoch would be counted twice or left out.",
                   "Keep ranks x training.per_device_train_batch_size x "
                   "training.gradient_accumulation_steps,\nor say with run.max_steps where the run "
                   "ends.");
    }
    changed.push_back(what);
    return changed;  // its epochs may have other ends, too
  }
  const auto total = [&](int64_t count) {
    return ShareOf(ShareOptions(job.config, job.train->size(), {.count = count})).total;
  };
  // Returns the samples of an epoch's whole batches.
  const auto in_batches = [&](int64_t step_samples, int64_t count, int64_t accumulation) {
    const int64_t batch = std::max<int64_t>(1, step_samples / (count * accumulation));
    return total(count) / count / batch * batch * count;
  };
  const int64_t accumulation = job.config.training.gradient_accumulation_steps;
  const json::json_pointer before("/training/gradient_accumulation_steps");
  const bool drops = job.config.data.dataloader_drop_last;
  const bool dropped = run["config"].value(json::json_pointer("/data/dataloader_drop_last"), drops);
  const int64_t taken = in_batches(plan.step_samples, plan.data_ranks, accumulation);
  const int64_t took = in_batches(samples, ranks, run["config"].value(before, accumulation));
  const bool by_rank = job.config.data.sample_order == SampleOrder::kTorch;
  const int64_t epoch = drops ? taken : total(plan.data_ranks);
  const int64_t epoch_before = dropped ? took : total(ranks);
  if (by_rank && (drops || dropped) && epoch != epoch_before) {
    throw refuse("An epoch had " + CountText(epoch_before, "sample") + ", and has " +
                     std::to_string(epoch) +
                     " here, because data.dataloader_drop_last leaves out others: its steps would "
                     "be counted twice or left out.",
                 "Keep the ranks, training.per_device_train_batch_size and "
                 "data.dataloader_drop_last.");
  }
  // Of equal whole batches within the data nothing is padded.
  const bool pads_nothing = drops && dropped && taken <= job.train->size();
  if (by_rank && !pads_nothing && total(ranks) != total(plan.data_ranks)) {
    throw refuse("Its " + std::to_string(ranks) + " ranks padded an epoch to " +
                     std::to_string(total(ranks)) + " samples, " + std::to_string(plan.data_ranks) +
                     " make it " + std::to_string(total(plan.data_ranks)) +
                     ": steps would have other samples.",
                 "Start as many ranks, or set data.sample_order \"world_size_independent\".");
  }
  return changed;
}

}  // namespace ddprun::trainer

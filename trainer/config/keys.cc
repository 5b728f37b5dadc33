#include "trainer/config/keys.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "base/text.h"
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

namespace {

std::string NumberText(double value) {
  return SlotText(&value);
}

// Returns " from 1 to 8", " above 0 and below 1".
std::string RangeText(const Range& range) {
  const bool low = std::isfinite(range.min);
  const bool high = std::isfinite(range.max);
  if (low && high && !range.min_excluded && !range.max_excluded) {
    return " from " + NumberText(range.min) + " to " + NumberText(range.max);
  }
  std::string text;
  if (low) text = (range.min_excluded ? " above " : " of at least ") + NumberText(range.min);
  if (high) {
    text += low ? " and" : "";
    text += (range.max_excluded ? " below " : " of at most ") + NumberText(range.max);
  }
  return text;
}

struct AcceptedTextOf {
  const Range& range;
  const CountedIn counted;
  std::string operator()(const bool* /*field*/) const { return "true or false"; }
  std::string operator()(const int64_t* /*field*/) const { return "an integer" + RangeText(range); }
  std::string operator()(const double* /*field*/) const { return "a number" + RangeText(range); }
  std::string operator()(const NumberOrAuto* /*field*/) const {
    return "\"auto\" or a number" + RangeText(range);
  }
  std::string operator()(const Interval* /*field*/) const {
    if (counted == CountedIn::kTime) return "a time as \"90 min\", \"2 h\" or \"23:50:00\", or 0";
    const std::string times = counted == CountedIn::kSteps ? "" : ", \"30 min\", \"2 h\"";
    return "a number of optimizer steps, \"2 epochs\"" + times + " or 0";
  }
  std::string operator()(const std::string* /*field*/) const { return "a string"; }
  std::string operator()(const JsonText* /*field*/) const { return "an object"; }
  std::string operator()(const ChoiceSlot& slot) const {
    return "one of " + FormatList(slot.words, ", ", "\"");
  }
  std::string operator()(const std::array<double, 2>* /*field*/) const {
    return "a list of two numbers" + RangeText(range);
  }
  std::string operator()(const std::vector<int64_t>* /*field*/) const {
    return "a list of integers" + RangeText(range);
  }
  std::string operator()(const std::vector<double>* /*field*/) const {
    return "a list of numbers" + RangeText(range);
  }
  std::string operator()(const std::vector<std::string>* /*field*/) const {
    return "a string or a list of strings";
  }
};

std::vector<Key> MakeKeys() {
  std::vector<Key> keys;
  for (auto* rows :
       {RunKeys,        StartKeys,      ModelKeys,         TransformerKeys, BertAndLlamaKeys,
        OtherModelKeys, DataKeys,       FileDataKeys,      TextDataKeys,    CsvDataKeys,
        OtherDataKeys,  TrainingKeys,   ClippingKeys,      LoraKeys,        LossKeys,
        ComputeKeys,    OptimizerKeys,  OptimizerKindKeys, SchedulerKeys,   ScheduleShapeKeys,
        PlateauKeys,    StrategyKeys,   PipelineKeys,      GradientKeys,    CommKeys,
        CheckpointKeys, EvaluationKeys, SampleKeys,        ReportKeys}) {
    std::vector<Key> section = rows();
    keys.insert(keys.end(), std::make_move_iterator(section.begin()),
                std::make_move_iterator(section.end()));
  }
  return keys;
}

}  // namespace

const std::vector<Section>& AllSections() {
  static const std::vector<Section> sections = {
      {"run", "The run as a whole: its name, folder, seed and length.", {"experiment", "job"}},
      {"model", "The model.", {"network", "architecture"}},
      {"data", "The training and validation data.", {"dataset", "datasets", "dataloader"}},
      {"training", "Batches and gradients.", {"trainer", "training_args"}},
      {"optimizer", "How gradients change the weights.", {"optim"}},
      {"scheduler", "The learning rate over the run.", {"lr_scheduler", "schedule"}},
      {"strategy", "How ranks share the work.", {"ddp", "parallel", "parallelism", "distributed"}},
      {"comm", "Timeouts and the all-reduce.", {"communication"}},
      {"checkpoint", "Checkpoints and weights.", {"checkpointing", "save"}},
      {"evaluation", "Validation, and the text sample at the end.", {"eval", "validation"}},
      {"report", "The output of a run.", {"logging", "metrics", "log"}},
  };
  return sections;
}

const std::vector<Key>& AllKeys() {
  static const std::vector<Key> keys = MakeKeys();
  return keys;
}

const Section* FindSection(std::string_view name) {
  for (const Section& section : AllSections()) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const Key* FindKey(std::string_view section, std::string_view name) {
  for (const Key& key : AllKeys()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

const Key* FindKey(std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  return FindKey(path.substr(0, dot), path.substr(dot + 1));
}

const Key& GetKey(std::string_view path) {
  const Key* key = FindKey(path);
  DDPRUN_CHECK(key != nullptr);
  return *key;
}

std::string DefaultText(const Key& key) {
  if (!key.derived_default.empty()) return std::string(key.derived_default);
  Config defaults;
  return SlotText(key.slot(defaults));
}

std::string ValueText(const Key& key, const Config& config) {
  Config copy = config;  // slots are writable references
  return SlotText(key.slot(copy));
}

bool HasWord(const Key& key, std::span<const std::string_view> words, const Config& config) {
  const std::string value = ValueText(key, config);
  return std::ranges::any_of(
      words, [&](std::string_view word) { return value == "\"" + std::string(word) + "\""; });
}

bool IsDefault(const Key& key, const Config& config) {
  return ValueText(key, config) == ValueText(key, Config());
}

std::string AcceptedText(const Key& key) {
  Config config;
  return std::visit(AcceptedTextOf{key.range, key.counted}, key.slot(config));
}

std::string ScopeText(const Scope& scope) {
  return std::string(scope.key) + " " + FormatList(scope.values, " or ", "\"");
}

std::string UnitAndDefault(const Key& key) {
  std::string text = std::string(key.unit);
  if (!text.empty()) text += ", ";
  text += key.required ? "required" : "default " + DefaultText(key);
  return " (" + text + ")";
}

}  // namespace ddprun::trainer

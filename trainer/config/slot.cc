#include "trainer/config/slot.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "trainer/config/value_types.h"

namespace ddprun::trainer {

namespace {

using Words = std::span<const std::string_view>;

// Whole numbers without ".0", as people write them.
nlohmann::json NumberJson(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) < kExact) return static_cast<int64_t>(value);
  return value;
}

struct ToJson {
  nlohmann::json operator()(const double* field) const { return NumberJson(*field); }
  nlohmann::json operator()(const NumberOrAuto* field) const {
    if (field->automatic) return "auto";
    return NumberJson(field->number);
  }
  nlohmann::json operator()(const Interval* field) const {
    const bool plain = field->amount == 0 || field->unit == IntervalUnit::kSteps;
    if (plain) return NumberJson(field->amount);
    return IntervalText(*field);
  }
  nlohmann::json operator()(const std::array<double, 2>* field) const {
    return {NumberJson(field->at(0)), NumberJson(field->at(1))};
  }
  nlohmann::json operator()(const std::vector<double>* field) const {
    nlohmann::json list = nlohmann::json::array();
    for (const double value : *field) list.push_back(NumberJson(value));
    return list;
  }
  nlohmann::json operator()(const JsonText* field) const {
    return nlohmann::json::parse(field->text);
  }
  nlohmann::json operator()(const ChoiceSlot& slot) const {
    return std::string(slot.words[slot.get(slot.field)]);
  }
  nlohmann::json operator()(const auto* field) const { return *field; }
};

}  // namespace

Words WordsOf(ModelType /*type*/) {
  static constexpr std::array<std::string_view, 12> kWords = {
      "gpt",      "mlp",      "bert",     "llama",     "linear",      "cnn",
      "resnet18", "resnet34", "resnet50", "resnet101", "torchscript", "plugin"};
  return kWords;
}

Words WordsOf(Activation /*type*/) {
  static constexpr std::array<std::string_view, 3> kWords = {"relu", "none", "gelu"};
  return kWords;
}

Words WordsOf(DataFormat /*type*/) {
  static constexpr std::array<std::string_view, 11> kWords = {
      "text", "jsonl",   "tokens",   "text_classification", "random", "csv",
      "idx",  "cifar10", "cifar100", "image_folder",        "plugin"};
  return kWords;
}

Words WordsOf(SampleOrder /*order*/) {
  static constexpr std::array<std::string_view, 2> kWords = {"torch", "world_size_independent"};
  return kWords;
}

Words WordsOf(OnBadRow /*policy*/) {
  static constexpr std::array<std::string_view, 2> kWords = {"error", "skip"};
  return kWords;
}

Words WordsOf(OnMissing /*policy*/) {
  static constexpr std::array<std::string_view, 3> kWords = {"error", "skip", "mean"};
  return kWords;
}

Words WordsOf(TargetType /*type*/) {
  static constexpr std::array<std::string_view, 2> kWords = {"class", "number"};
  return kWords;
}

Words WordsOf(Loss /*type*/) {
  static constexpr std::array<std::string_view, 4> kWords = {"auto", "cross_entropy", "mse",
                                                             "causal_lm"};
  return kWords;
}

Words WordsOf(Metric /*type*/) {
  static constexpr std::array<std::string_view, 7> kWords = {"accuracy",   "f1",  "f1_macro", "mcc",
                                                             "perplexity", "mse", "mae"};
  return kWords;
}

Words WordsOf(Precision /*type*/) {
  static constexpr std::array<std::string_view, 3> kWords = {"fp32", "bf16", "fp16"};
  return kWords;
}

Words WordsOf(MatmulSetting /*type*/) {
  static constexpr std::array<std::string_view, 3> kWords = {"auto", "default", "onednn"};
  return kWords;
}

Words WordsOf(OptimizerType /*type*/) {
  static constexpr std::array<std::string_view, 3> kWords = {"adamw", "adam", "sgd"};
  return kWords;
}

Words WordsOf(LrSchedulerType /*type*/) {
  static constexpr std::array<std::string_view, 3> kWords = {"cosine", "linear", "constant"};
  return kWords;
}

Words WordsOf(StrategyType /*type*/) {
  static constexpr std::array<std::string_view, 10> kWords = {
      "auto",     "single",          "ddp",   "dp",    "model_parallel",
      "pipeline", "tensor_parallel", "zero1", "zero2", "zero3"};
  return kWords;
}

Words WordsOf(PipelineSchedule /*type*/) {
  static constexpr std::array<std::string_view, 2> kWords = {"gpipe", "1f1b"};
  return kWords;
}

Words WordsOf(DpLoss /*type*/) {
  static constexpr std::array<std::string_view, 2> kWords = {"gathered", "parallel"};
  return kWords;
}

Words WordsOf(Overlap /*type*/) {
  static constexpr std::array<std::string_view, 4> kWords = {"backward", "step", "both", "none"};
  return kWords;
}

Words WordsOf(CommHookType /*type*/) {
  static constexpr std::array<std::string_view, 5> kWords = {"none", "fp16", "bf16", "power_sgd",
                                                             "post_local_sgd"};
  return kWords;
}

Words WordsOf(AllReduceAlgorithm /*type*/) {
  static constexpr std::array<std::string_view, 4> kWords = {"direct", "reduce_broadcast",
                                                             "all_to_all", "ring"};
  return kWords;
}

Words WordsOf(ProgressBarMode /*type*/) {
  static constexpr std::array<std::string_view, 3> kWords = {"auto", "on", "off"};
  return kWords;
}

std::string SlotText(const Slot& slot) {
  // A path from the environment need not be UTF-8; the text of a run's config must be.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  return std::visit(ToJson(), slot).dump(-1, ' ', false, kReplace);
}

}  // namespace ddprun::trainer

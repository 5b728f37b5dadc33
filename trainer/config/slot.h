// A typed reference to one field of a Config, so that one table can describe fields of all types.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// WordsOf(value) returns the words of the config file, in the order of the enumerators.
#define DDPRUN_WORDS(Enum, ...)                               \
  inline std::span<const std::string_view> WordsOf(Enum) {    \
    static constexpr std::string_view kWords[] = __VA_ARGS__; \
    return kWords;                                            \
  }
DDPRUN_WORDS(ModelType,
             {"gpt", "mlp", "bert", "llama", "linear", "cnn", "resnet18", "resnet34", "resnet50",
              "resnet101", "torchscript", "plugin"})
DDPRUN_WORDS(Activation, {"relu", "none", "gelu"})
DDPRUN_WORDS(DataFormat,
             {"text", "jsonl", "chat", "tokens", "text_classification", "random", "csv", "idx",
              "cifar10", "cifar100", "image_folder", "plugin"})
DDPRUN_WORDS(ChatTemplateType, {"chatml", "llama3", "zephyr"})
DDPRUN_WORDS(SampleOrder, {"torch", "world_size_independent"})
DDPRUN_WORDS(OnBadRow, {"error", "skip"})
DDPRUN_WORDS(OnMissing, {"error", "skip", "mean"})
DDPRUN_WORDS(TargetType, {"class", "number"})
DDPRUN_WORDS(Loss, {"auto", "cross_entropy", "mse", "causal_lm"})
DDPRUN_WORDS(Metric,
             {"accuracy", "precision", "recall", "f1", "f1_macro", "mcc", "roc_auc", "perplexity",
              "mse", "rmse", "mae", "r2", "confusion_matrix"})
DDPRUN_WORDS(Precision, {"fp32", "bf16", "fp16"})
DDPRUN_WORDS(MatmulSetting, {"auto", "default", "onednn"})
DDPRUN_WORDS(OptimizerType, {"adamw", "adam", "sgd", "adagrad", "lion"})
DDPRUN_WORDS(LrSchedulerType,
             {"cosine", "linear", "constant", "cosine_with_restarts", "polynomial", "inverse_sqrt",
              "warmup_stable_decay", "step", "multi_step", "one_cycle", "reduce_lr_on_plateau"})
DDPRUN_WORDS(DecayType, {"cosine", "linear", "1-sqrt"})
DDPRUN_WORDS(StrategyType,
             {"auto", "single", "ddp", "dp", "model_parallel", "pipeline", "tensor_parallel",
              "zero1", "zero2", "zero3"})
DDPRUN_WORDS(PipelineSchedule, {"gpipe", "1f1b"})
DDPRUN_WORDS(DpLoss, {"gathered", "parallel"})
DDPRUN_WORDS(Overlap, {"backward", "step", "both", "none"})
DDPRUN_WORDS(CommHookType, {"none", "fp16", "bf16", "power_sgd", "post_local_sgd"})
DDPRUN_WORDS(AllReduceAlgorithm,
             {"direct", "reduce_broadcast", "all_to_all", "ring", "hierarchical"})
DDPRUN_WORDS(ProgressBarMode, {"auto", "on", "off"})
#undef DDPRUN_WORDS

// Returns the word of an enumerator: "adamw".
template <typename E>
std::string_view Word(E value) {
  return WordsOf(value)[static_cast<size_t>(value)];
}

// A field of any enum type.
struct ChoiceSlot {
  void* field;
  std::span<const std::string_view> words;
  size_t (*get)(const void* field);
  void (*set)(void* field, size_t index);
};

using Slot = std::variant<bool*,
                          int64_t*,
                          double*,
                          NumberOrAuto*,
                          Interval*,
                          std::string*,
                          JsonText*,
                          ChoiceSlot,
                          std::array<double, 2>*,
                          std::vector<int64_t>*,
                          std::vector<double>*,
                          std::vector<std::string>*>;

template <typename T>
Slot SlotOf(T& field) {
  if constexpr (std::is_enum_v<T>) {
    return ChoiceSlot{&field, WordsOf(field),
                      [](const void* f) { return static_cast<size_t>(*static_cast<const T*>(f)); },
                      [](void* f, size_t index) { *static_cast<T*>(f) = static_cast<T>(index); }};
  } else {
    return &field;
  }
}

// Returns the field's value as JSON. Numbers have enough digits to be read back equal.
std::string SlotText(const Slot& slot);

}  // namespace ddprun::trainer

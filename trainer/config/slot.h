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

// The words of the config file, in the order of the enumerators.
std::span<const std::string_view> WordsOf(ModelType);
std::span<const std::string_view> WordsOf(Activation);
std::span<const std::string_view> WordsOf(DataFormat);
std::span<const std::string_view> WordsOf(SampleOrder);
std::span<const std::string_view> WordsOf(OnBadRow);
std::span<const std::string_view> WordsOf(OnMissing);
std::span<const std::string_view> WordsOf(TargetType);
std::span<const std::string_view> WordsOf(Loss);
std::span<const std::string_view> WordsOf(Metric);
std::span<const std::string_view> WordsOf(Precision);
std::span<const std::string_view> WordsOf(MatmulSetting);
std::span<const std::string_view> WordsOf(OptimizerType);
std::span<const std::string_view> WordsOf(LrSchedulerType);
std::span<const std::string_view> WordsOf(StrategyType);
std::span<const std::string_view> WordsOf(PipelineSchedule);
std::span<const std::string_view> WordsOf(DpLoss);
std::span<const std::string_view> WordsOf(Overlap);
std::span<const std::string_view> WordsOf(CommHookType);
std::span<const std::string_view> WordsOf(AllReduceAlgorithm);
std::span<const std::string_view> WordsOf(ProgressBarMode);

// The word of one enumerator: "adamw".
template <typename E>
std::string_view Word(E value) {
  return WordsOf(value)[static_cast<size_t>(value)];
}

// A field of an enum type, whatever the type.
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

// JSON text of the field's value; a number so that reading it gives the same value again.
std::string SlotText(const Slot& slot);

}  // namespace ddprun::trainer

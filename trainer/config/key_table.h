// The rows of the key table, in the order of docs/config.md; only keys.cc calls them.
#pragma once

#include <vector>

#include "trainer/config/keys.h"

namespace ddprun::trainer {

std::vector<Key> RunKeys();
std::vector<Key> ModelKeys();
std::vector<Key> TransformerKeys();
std::vector<Key> TokenModelKeys();
std::vector<Key> BertKeys();
std::vector<Key> LlamaKeys();
std::vector<Key> MlpKeys();
std::vector<Key> OtherModelKeys();
std::vector<Key> DataKeys();
std::vector<Key> LoaderKeys();
std::vector<Key> FileDataKeys();
std::vector<Key> TextDataKeys();
std::vector<Key> CsvDataKeys();
std::vector<Key> CsvRowKeys();
std::vector<Key> ImageDataKeys();
std::vector<Key> RandomDataKeys();
std::vector<Key> PluginDataKeys();
std::vector<Key> TrainingKeys();
std::vector<Key> OptimizerKeys();
std::vector<Key> SchedulerKeys();
std::vector<Key> StrategyKeys();
std::vector<Key> DeviceKeys();
std::vector<Key> PipelineKeys();
std::vector<Key> GradientKeys();
std::vector<Key> ZeroKeys();
std::vector<Key> CommKeys();
std::vector<Key> CheckpointKeys();
std::vector<Key> EvaluationKeys();
std::vector<Key> ReportKeys();

template <auto SectionField, auto Field>
Slot At(Config& config) {
  return SlotOf((config.*SectionField).*Field);
}

constexpr Range AtLeast(double min) {
  return {.min = min};
}
constexpr Range Above(double min) {
  return {.min = min, .min_excluded = true};
}
constexpr Range Between(double min, double max) {
  return {.min = min, .max = max};
}
// [0, 1)
constexpr Range kBelowOne = {.min = 0, .max = 1, .max_excluded = true};
// Sizes of tensors: larger ones could not be allocated.
constexpr Range kSize = Between(1, 1 << 30);
constexpr Range kSizeOrZero = Between(0, 1 << 30);

}  // namespace ddprun::trainer

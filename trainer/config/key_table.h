// The rows of the key table, in the order of docs/config.md; only keys.cc calls them.
#pragma once

#include <vector>

#include "trainer/config/keys.h"

namespace ddprun::trainer {

std::vector<Key> RunKeys();
std::vector<Key> StartKeys();
std::vector<Key> ModelKeys();
std::vector<Key> TransformerKeys();
std::vector<Key> BertAndLlamaKeys();
std::vector<Key> OtherModelKeys();
std::vector<Key> DataKeys();
std::vector<Key> FileDataKeys();
std::vector<Key> TextDataKeys();
std::vector<Key> CsvDataKeys();
std::vector<Key> OtherDataKeys();
std::vector<Key> TrainingKeys();
std::vector<Key> ClippingKeys();
std::vector<Key> LoraKeys();
std::vector<Key> LossKeys();
std::vector<Key> ComputeKeys();
std::vector<Key> OptimizerKeys();
std::vector<Key> OptimizerKindKeys();
std::vector<Key> SchedulerKeys();
std::vector<Key> ScheduleShapeKeys();
std::vector<Key> PlateauKeys();
std::vector<Key> StrategyKeys();
std::vector<Key> PipelineKeys();
std::vector<Key> GradientKeys();
std::vector<Key> CommKeys();
std::vector<Key> CheckpointKeys();
std::vector<Key> EvaluationKeys();
std::vector<Key> SampleKeys();
std::vector<Key> ReportKeys();

// Begins a row: with {.DDPRUN_KEY(data, shuffle), ...} "data.shuffle" fills config.data.shuffle.
#define DDPRUN_KEY(part, field) \
  section = #part, .name = #field, .slot = [](Config& config) { return SlotOf(config.part.field); }

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
// Sizes of tensors; larger tensors could not be allocated.
constexpr Range kSize = Between(1, 1 << 30);
constexpr Range kSizeOrZero = Between(0, 1 << 30);

}  // namespace ddprun::trainer

#include "trainer/config/parallel_dims.h"

#include <algorithm>

#include "trainer/config/config.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {

namespace {

Error UnevenRanks(const Config& config, int world, int each) {
  return Error{.code = Code::kUsage,
               .title = "TOO MANY RANKS",
               .where = "strategy.type \"" + std::string(Word(config.strategy.type)) + "\"",
               .what = "Each replica of the model takes " + std::to_string(each) +
                       " ranks; there are " + std::to_string(world) +
                       ", which is no multiple of that.",
               .hint = "Start a multiple of " + std::to_string(each) +
                       " (--nproc_per_node times nodes), or change strategy.tensor_parallel_size, "
                       "strategy.pipeline_parallel_size\nor strategy.shard_size.",
               .page = "too-many-ranks"};
}

Replicas ReplicasOf(StrategyType type, const ParallelDims& dims) {
  // A single replica has nothing to average, and no other rank to divide its state with.
  if (dims.data == 1 && (dims.in_parts() || type == StrategyType::kTensorParallel)) {
    return Replicas::kNone;
  }
  switch (type) {
    case StrategyType::kSingle:
      return Replicas::kNone;
    case StrategyType::kDp:
      return Replicas::kDevices;
    case StrategyType::kZero1:
      return Replicas::kShardOptimizer;
    case StrategyType::kZero2:
      return Replicas::kShardGradients;
    case StrategyType::kZero3:
      return Replicas::kShardParameters;
    default:
      return Replicas::kAverage;
  }
}

}  // namespace

StrategyType TypeFor(const Config& config, int world) {
  if (config.strategy.type != StrategyType::kAuto) return config.strategy.type;
  const bool alone = world == 1 && config.training.virtual_ranks == 0;
  return alone ? StrategyType::kSingle : StrategyType::kDdp;
}

Result<ParallelDims> ResolveDims(const Config& config, int world) {
  const StrategyConfig& strategy = config.strategy;
  const StrategyType type = TypeFor(config, world);
  ParallelDims dims{.world = world,
                    .tensor = static_cast<int>(strategy.tensor_parallel_size),
                    .pipeline = static_cast<int>(strategy.pipeline_parallel_size),
                    .shard = static_cast<int>(strategy.shard_size),
                    .one_by_one = type == StrategyType::kModelParallel,
                    .devices = strategy.devices};
  // A size of 0 means all ranks if the type has that name; else 1.
  const int least = std::min(1, world);
  if (dims.pipeline == 0) {
    const bool all = type == StrategyType::kPipeline && dims.devices.empty();
    dims.pipeline = all ? std::max(least, world / std::max(1, dims.tensor)) : 1;
  }
  if (dims.tensor == 0) {
    const bool all = type == StrategyType::kTensorParallel;
    dims.tensor = all ? std::max(least, world / std::max(1, dims.pipeline)) : 1;
  }
  const int of_model = std::max(1, dims.tensor * dims.pipeline);
  const int of_replica = of_model * std::max(1, dims.shard);
  if (world % of_replica != 0) return UnevenRanks(config, world, of_replica);
  dims.data = world / of_model;
  if (dims.shard == 0) dims.shard = dims.data;
  dims.in_stages = type == StrategyType::kPipeline || dims.one_by_one || dims.pipeline > 1;
  const bool of_devices = dims.in_stages && !dims.devices.empty();
  dims.stages = of_devices ? static_cast<int>(dims.devices.size()) : dims.pipeline;
  dims.replicas = ReplicasOf(type, dims);
  return dims;
}

}  // namespace ddprun::trainer

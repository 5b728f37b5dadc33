// The division of the model, its state and the samples among ranks or devices: the numbers that
// strategy.type and its sizes mean. Code uses these numbers instead of strategy.type. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ddprun/options.h>
#include "base/result.h"

namespace ddprun::trainer {

struct Config;
enum class StrategyType;

// The common work of the ranks (or devices) of the data axis.
enum class Replicas : uint8_t {
  kNone,             // none: there is one replica of the model
  kAverage,          // average gradients: "ddp"
  kShardOptimizer,   // and divide the optimizer's state: "zero1"
  kShardGradients,   // and the gradients: "zero2"
  kShardParameters,  // and the parameters: "zero3"
  kDevices,          // are devices of one process: "dp"
};

struct ParallelDims {
  Replicas replicas = Replicas::kNone;
  int world = 1;            // ranks: tensor * pipeline * data
  int tensor = 1;           // ranks that divide each layer
  int pipeline = 1;         // ranks that divide the stages
  int data = 1;             // ranks with the same part of the model and other samples
  int shard = 0;            // ranks of the data axis that divide the state of one replica
  bool in_stages = false;   // a pipeline, also one of a single stage
  int stages = 1;           // of the pipeline, on ranks or on devices
  bool one_by_one = false;  // a stage works on one micro-batch after the other
  std::vector<std::string> devices = {};  // of this one process; empty: each rank has one device

  operator MeshSizes() const { return {.tensor = tensor, .pipeline = pipeline, .shard = shard}; }
  // Returns whether no rank, or no device, has all layers.
  bool in_parts() const { return in_stages || tensor != 1; }
  // Returns whether ranks of the data axis divide the state of a replica.
  bool shares_state() const {
    return replicas >= Replicas::kShardOptimizer && replicas <= Replicas::kShardParameters;
  }
  // Returns whether ranks need a process group.
  bool needs_group() const {
    return devices.empty() && (replicas != Replicas::kNone || in_parts());
  }
  // Returns the number of devices that divide the samples of a rank.
  int64_t sample_devices() const {
    return replicas == Replicas::kDevices ? static_cast<int64_t>(devices.size()) : 1;
  }
};

// Returns strategy.type, but for "auto" the type that `world` ranks take.
StrategyType TypeFor(const Config& config, int world);

// Returns the numbers for `world` ranks, or the error "too-many-ranks" if a replica does not take
// a divisor of them. If `world` is 0, the number of ranks is unknown: sizes that depend on it are
// 0, and there is no error.
Result<ParallelDims> ResolveDims(const Config& config, int world);

}  // namespace ddprun::trainer

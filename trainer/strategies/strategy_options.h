// From a config to the options and the optimizer of a strategy.
#pragma once

#include <memory>
#include <vector>

#include <ddprun/optimizer.h>
#include "trainer/config/config.h"
#include "trainer/parallel/unit_layout.h"
#include "trainer/strategies/ddp.h"

namespace ddprun::trainer {

DataParallelOptions DataParallelOptionsOf(const Config& job);

// Makes the optimizer for what a rank updates. `shards` are whole parameters or parts of them, on
// any devices.
std::unique_ptr<Optimizer> BuildOptimizer(const OptimizerConfig& config, std::vector<Shard> shards);
// Makes the optimizer for all trained parameters of this rank's part of a model.
std::unique_ptr<Optimizer> OptimizerOf(const OptimizerConfig& config, const Model& model);

}  // namespace ddprun::trainer

// The optimizer of a config, for what a rank updates.
#pragma once

#include <memory>
#include <vector>

#include "trainer/config/training_config.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/unit_layout.h"

namespace ddprun::trainer {

// `shards`: whole parameters, or parts; of any devices.
std::unique_ptr<Optimizer> BuildOptimizer(const OptimizerConfig& config,
                                          std::vector<Shard> shards);

}  // namespace ddprun::trainer

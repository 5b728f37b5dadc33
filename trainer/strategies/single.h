// The strategy of one process with one device.
#pragma once

#include <memory>

#include <ddprun/mesh.h>
#include <ddprun/optimizer.h>
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// Makes the strategy of one process with one device; with a tensor axis, of its ranks together.
std::unique_ptr<Strategy> MakeSingle(std::shared_ptr<Model> model,
                                     std::unique_ptr<Optimizer> optimizer,
                                     const Mesh& mesh = {});

}  // namespace ddprun::trainer

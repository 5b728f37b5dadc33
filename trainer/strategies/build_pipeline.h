// Makes the strategy of a model that is divided into stages.
#pragma once

#include <memory>

#include "trainer/strategies/built_strategy.h"

namespace ddprun::trainer {

// See StrategyKind::build.
BuiltStrategy BuildPipeline(const BuildInputs& in, std::shared_ptr<Model> whole);

}  // namespace ddprun::trainer

// SEAM: the table of strategies. A strategy is a file of this folder with a Make function, and a
// row here.
#pragma once

#include <memory>
#include <span>

#include "trainer/strategies/built_strategy.h"

namespace ddprun::trainer {

struct StrategyKind {
  bool (*fits)(const ParallelDims& dims);
  // `whole` is the model with its weights. If ranks have parts of the model, it is on rank 0's CPU,
  // and nullptr on the other ranks. A collective, unless BuildInputs::joins. Throws Failure.
  BuiltStrategy (*build)(const BuildInputs& in, std::shared_ptr<Model> whole);
};

// Returns the kinds of strategy. The first that fits is taken.
std::span<const StrategyKind> StrategyKinds();

// Makes the model with its weights, and the strategy that fits `in.dims`. A collective, unless
// in.joins. Throws Failure.
BuiltStrategy BuildStrategy(const BuildInputs& in,
                            std::span<const StrategyKind> kinds = StrategyKinds());

}  // namespace ddprun::trainer

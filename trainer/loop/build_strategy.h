// Which strategy a config means for so many ranks, and the making of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/flight_recorder.h"
#include "trainer/loop/job.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/strategy.h"

namespace ddprun::trainer {

// With kAuto decided.
StrategyType StrategyOf(const Config& config, int world_size);

// Ranks along each axis. Throws Failure (page "too-many-ranks") where they cannot be shared out so.
MeshShape MeshShapeOf(const Config& config, int world_size);

struct BuiltStrategy {
  std::shared_ptr<Model> model;  // what of it this rank has
  std::unique_ptr<Strategy> strategy;
  // Parameters that the model folder lacks, drawn afresh; on rank 0.
  std::vector<std::string> fresh_parameters = {};
};

// Makes or reads the weights, too. A collective. `joins`: this rank takes the place of a lost one;
// the others call Strategy::Rejoin, and its state comes otherwise. Throws Failure.
BuiltStrategy BuildStrategy(const Job& job,
                            const Mesh& mesh,
                            FlightRecorder* recorder,
                            bool joins = false);

}  // namespace ddprun::trainer

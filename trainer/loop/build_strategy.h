// Makes the strategy that a config means.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/flight_recorder.h"
#include "trainer/loop/job.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/strategy.h"
#include "trainer/parallel/unit_layout.h"

namespace ddprun::trainer {

// The optimizer of a config, for what a rank updates: whole parameters, or parts; of any devices.
std::unique_ptr<Optimizer> BuildOptimizer(const OptimizerConfig& config, std::vector<Shard> shards);

struct BuiltStrategy {
  std::shared_ptr<Model> model;  // what of it this rank has
  std::unique_ptr<Strategy> strategy;
  // Parameters that the model folder lacks, drawn afresh; on rank 0.
  std::vector<std::string> fresh_parameters = {};
  std::vector<std::string> placement = {};  // on rank 0, of a pipeline: lines
};

// Makes or reads the weights, too. A collective; none where this rank `joins`, in place of a lost
// one: Strategy::Rejoin follows on all ranks, and the state comes otherwise. Throws Failure.
BuiltStrategy BuildStrategy(const Job& job,
                            const Mesh& mesh,
                            FlightRecorder* recorder,
                            bool joins = false);

// Gives all ranks what they have of a model: `whole` is rank 0's, the others' is not looked at. A
// collective.
void HandOutModel(const Model* whole, const Model& part, const Mesh& mesh);

// On rank 0 the whole model, to write it and to try it out, of what all ranks have of it. A
// collective. Throws Failure.
std::shared_ptr<Model> GatherModel(const Job& job, Strategy& strategy, const Mesh& mesh);

}  // namespace ddprun::trainer

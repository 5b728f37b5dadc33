// The inputs and results of functions that make a strategy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "base/flight_recorder.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/job/job.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

struct BuildInputs {
  const Job& job;
  const ParallelDims& dims;
  const Mesh& mesh;
  FlightRecorder* recorder = nullptr;  // may be nullptr
  // This rank replaces a lost one. Making the strategy is no collective then: Strategy::Rejoin
  // follows on all ranks, and the other ranks give the state.
  bool joins = false;
};

// For rank 0's log.
struct BuildNotes {
  std::vector<std::string> stages = {};            // of a pipeline, a line for each
  std::vector<std::string> fresh_parameters = {};  // drawn, because the model folder lacks them
};

struct BuiltStrategy {
  std::shared_ptr<Model> model = {};  // this rank's part of it
  std::unique_ptr<Strategy> strategy = {};
  BuildNotes notes = {};
};

}  // namespace ddprun::trainer

// The memory that the workers of one attempt share with each other and with the agent.
#pragma once

#include <memory>

#include "base/flight_reader.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

struct AttemptMemory {
  UniqueFd node;      // for the ranks' collectives
  UniqueFd recorder;  // a page for each worker's flight recorder
  std::unique_ptr<FlightReader> flight;

  // Makes new memory, so that workers do not see what a killed worker has left.
  static Result<AttemptMemory> Create(int workers);
};

}  // namespace ddprun::launcher

// The marks of lost workers in the flight recorder: an agent sets them, and the workers of its node
// read them (FlightRecorder::IsLost).
#pragma once

#include <chrono>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// A worker that a signal has ended and that another process replaces.
struct LostWorker {
  int rank = 0;        // in the job
  int generation = 0;  // of the process that replaces it
  std::chrono::steady_clock::time_point time = {};
};

// Records, for the other workers, that this worker's process has ended. From `generation` on,
// counted from 0, a replacement takes part.
Status MarkLost(const UniqueFd& file, int local_rank, int generation);
// The same for a worker of another node. The file keeps only the last one.
Status MarkLostElsewhere(const UniqueFd& file, int rank, int generation);

}  // namespace ddprun

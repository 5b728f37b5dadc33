// Decides which lost workers of an attempt are replaced, and counts the generations of processes.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "base/flight_reader.h"
#include "base/unique_fd.h"
#include "launcher/agent/group_workers.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class Replacements {
 public:
  // `out_of_memory` returns whether a worker that a signal has ended is known to have run out of
  // memory. All arguments must outlive the result.
  Replacements(const UniqueFd& recorder,
               const FlightReader& flight,
               const GroupWorkers& workers,
               const std::function<bool(const WorkerRecord&)>& out_of_memory)
      : recorder_(recorder), flight_(flight), workers_(workers), out_of_memory_(out_of_memory) {}

  // Returns the generation of the process that replaces the worker, after marking the worker as
  // lost for the others; nullopt means that they cannot continue with a replacement.
  std::optional<int> Begin(const WorkerRecord& lost);

 private:
  bool CanReplace(const WorkerRecord& lost) const;
  // Returns whether this worker's latest process has the run's state and can continue if another
  // worker is lost.
  bool HasRecovered(int local_rank) const;
  int GenerationOf(int local_rank) const;

  const UniqueFd& recorder_;
  const FlightReader& flight_;
  const GroupWorkers& workers_;
  const std::function<bool(const WorkerRecord&)>& out_of_memory_;
  int generation_ = 0;              // number of workers that have been replaced
  std::map<int, int> generations_;  // by local rank, of a process that replaced another
};

}  // namespace ddprun::launcher

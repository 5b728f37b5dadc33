// Decides which lost workers of an attempt are replaced, and counts the generations of processes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/flight_reader.h"
#include "base/unique_fd.h"
#include "launcher/hang/standing.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class Replacements {
 public:
  struct Sources {
    const UniqueFd& recorder;    // of the attempt's workers
    const FlightReader& flight;  // what they have written there
    std::function<std::vector<LiveWorker>()> living;
    std::function<std::vector<LiveWorker>()> ended_well;
    // Returns whether a worker that a signal has ended is known to have run out of memory.
    std::function<bool(const WorkerRecord&)> out_of_memory;
  };

  explicit Replacements(Sources sources) : sources_(std::move(sources)) {}

  // Returns the generation of the process that replaces the worker, after marking the worker as
  // lost for the others; nullopt means that they cannot continue with a replacement.
  std::optional<int> Begin(const WorkerRecord& lost);

 private:
  bool CanReplace(const WorkerRecord& lost) const;
  // Returns whether this worker's latest process has the run's state and can continue if another
  // worker is lost.
  bool HasRecovered(int local_rank) const;
  int BornIn(int local_rank) const;

  const Sources sources_;
  int generation_ = 0;       // number of workers that have been replaced
  std::map<int, int> born_;  // by local rank: the generation of a process that replaced another
};

}  // namespace ddprun::launcher

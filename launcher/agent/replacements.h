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

  // Returns whether the other workers of this node can continue with a replacement. If they are all
  // workers of the job, one of them must have the run's state.
  bool CanReplace(const WorkerRecord& lost, bool all_here) const;
  // Marks a worker of this node as lost, for the others, and returns the generation of the process
  // that replaces it.
  Result<int> Begin(const WorkerRecord& lost) { return Begin(lost, generation_ + 1); }
  // The same with the generation that all nodes have agreed on.
  Result<int> Begin(const WorkerRecord& lost, int generation);
  // Returns whether the workers of this node can wait until others replace those of a lost node.
  bool CanOutliveNode() const;
  // A worker of this node begins in `generation`, because it replaces one of a lost node.
  void BeginHere(int local_rank, int generation) {
    generations_[local_rank] = generation_ = generation;
  }
  // Marks a worker of another node as lost. Error: workers of this node cannot continue.
  Status BeginElsewhere(int rank, int generation);

 private:
  // Returns whether no worker has ended well, and all living ones can continue if another is lost.
  bool AllCanContinue() const;
  // Returns whether this worker's latest process has the run's state and can continue if another
  // worker is lost.
  bool HasRecovered(int local_rank) const;
  int GenerationOf(int local_rank) const;

  const UniqueFd& recorder_;
  const FlightReader& flight_;
  const GroupWorkers& workers_;
  const std::function<bool(const WorkerRecord&)>& out_of_memory_;
  int generation_ = 0;              // number of workers of the job that have been replaced
  std::map<int, int> generations_;  // by local rank, of a process that replaced another
};

}  // namespace ddprun::launcher

// Ends every process of a job, from inside (the agent) or from outside (the guard).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "launcher/process/process_table.h"

namespace ddprun::launcher {

// All from the beginning. Helpers that clean up for a worker, such as Python's resource tracker,
// get `grace` to end by themselves, then SIGKILL. A helper that is busy then gets `busy_grace`: on
// a machine with much load, a tracker that is killed while it starts leaves shared memory behind.
// After `limit` the sweep gives up.
struct SweepTimes {
  std::chrono::milliseconds grace{300};
  std::chrono::milliseconds busy_grace{3'000};
  std::chrono::milliseconds limit{10'000};

  bool IsOver(const ProcessEntry& process, std::chrono::nanoseconds since_start) const {
    return since_start >= (process.busy ? busy_grace : grace);
  }
};

// Children that this process had before it executed ddprun, as with `tensorboard & exec ddprun`,
// and their descendants. A sweep never ends them. Sessions tell them from the job's processes,
// because each worker leads a session of its own.
class InheritedChildren {
 public:
  InheritedChildren() = default;
  // Takes all children of now, except `own`. REQUIRES: the job has no processes yet.
  static InheritedChildren Find(pid_t own);

  bool none() const { return children_.empty(); }
  bool Contains(const ProcessEntry& process) const;

 private:
  std::map<pid_t, uint64_t> children_;  // with their start times
  std::set<pid_t> sessions_;            // of the children, and of this process
};

// Ends every child of this process except `spared` and `others`, and orphans that become children,
// because this process is a subreaper. Blocks. Returns those that are left after the limit.
// REQUIRES: SIGCHLD is blocked.
std::vector<pid_t> EndChildren(pid_t spared,
                               const InheritedChildren& others = {},
                               const SweepTimes& times = {});

// Ends the processes of a job whose agent is gone; see SelectJobProcesses(). Blocks.
void EndJob(JobMarks marks, const SweepTimes& times);

}  // namespace ddprun::launcher

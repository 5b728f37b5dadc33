// Ending every process of a job, from inside (the agent) or from outside (the guard).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "launcher/process/process_table.h"

namespace ddprun::launcher {

// Helpers that clean up behind a worker (Python's resource tracker unlinks its shared memory) get
// `grace` to end by themselves; whatever is left after `limit` does not end even by SIGKILL.
struct SweepTimes {
  std::chrono::milliseconds grace{300};
  std::chrono::milliseconds limit{10'000};
};

// Ends every child of this process but `spared`, and every process that becomes one by that (this
// process is a subreaper), until none is left. Blocks. Returns those that are left after the limit.
// REQUIRES: SIGCHLD is blocked.
std::vector<pid_t> EndChildren(pid_t spared, const SweepTimes& times = {});

// The same for a job whose agent is gone, from outside: see SelectJobProcesses.
void EndJob(JobMarks marks, const SweepTimes& times);

}  // namespace ddprun::launcher

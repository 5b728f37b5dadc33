// /proc: which processes belong to a job, and ending them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool ended = false;   // a zombie
  bool marked = false;  // its environment carries the job's id
};

// All processes that can be seen. `job_id` empty: environments are not read.
std::vector<ProcessEntry> ListProcesses(std::string_view job_id);

// Whether an environment block (NAME=value, NUL between) carries DDPRUN_JOB_ID=`job_id`, or the id
// of a job within it: `job_id`/...
bool CarriesJobId(std::string_view environment_block, std::string_view job_id);

// Pure: the job's living processes: the marked ones, those in `sessions` (of its workers), and all
// descendants of either. Never `self`, nor anything in `own_session`.
std::vector<pid_t> SelectJobProcesses(std::span<const ProcessEntry> processes,
                                      const std::set<pid_t>& sessions,
                                      pid_t self,
                                      pid_t own_session);

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
void EndJob(std::string_view job_id, const std::set<pid_t>& sessions, const SweepTimes& times);

}  // namespace ddprun::launcher

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

// SIGKILL to every child of this process, and to every process that becomes one by that (this
// process is a subreaper), until none is left. Returns those that are left after `limit`.
// REQUIRES: SIGCHLD is blocked.
std::vector<pid_t> KillChildrenUntilNoneIsLeft(std::chrono::milliseconds limit);

// The same for a job whose agent is gone, from outside: see SelectJobProcesses.
void KillJobUntilNoneIsLeft(std::string_view job_id,
                            const std::set<pid_t>& sessions,
                            std::chrono::milliseconds limit);

}  // namespace ddprun::launcher

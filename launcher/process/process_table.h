// Reads processes from /proc, and finds those that belong to a job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Returns whether /proc shows processes at all.
bool CanListProcesses();

// Marks by which a job's processes are recognised.
struct JobMarks {
  std::string job_id;  // DDPRUN_JOB_ID in their environment
  // Sessions of workers that are not reaped yet, with their leaders' start times.
  std::map<pid_t, uint64_t> sessions;
  std::set<uint64_t> pipes;  // inodes of the workers' stderr, which their children inherit
};

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  uint64_t start_time = 0;  // clock ticks since boot
  bool ended = false;       // a zombie
  bool busy = false;        // runs, is ready to run, or waits for a disk
  bool marked = false;      // IsMarked(); ListProcesses() leaves it false
};

std::optional<ProcessEntry> ReadProcess(pid_t pid);

std::vector<ProcessEntry> ListProcesses();

// Returns the children of this process, also zombies.
std::vector<ProcessEntry> ListChildren();

// Returns the inodes of a process's open descriptors of `kind`: "pipe" or "socket".
std::vector<uint64_t> DescriptorInodes(pid_t pid, std::string_view kind);

// Returns whether the job's id in its environment or one of the job's pipes marks the process. A
// pipe does not count if the process is older than `job_start`, because it may have been passed on.
bool IsMarked(const ProcessEntry& process, const JobMarks& marks, uint64_t job_start);

// Pure. Removes sessions whose number now belongs to a process with another start time.
void DropReused(std::span<const ProcessEntry> processes, std::map<pid_t, uint64_t>& sessions);

// Returns whether an environment block (NAME=value, separated by NUL) has DDPRUN_JOB_ID=`job_id`,
// or the id of a job within this job: `job_id`/...
bool CarriesJobId(std::string_view environment_block, std::string_view job_id);

// Pure. Returns the job's living processes: marked ones, those in `sessions`, and descendants of
// both. Never returns `self` or processes of `own_session`.
std::vector<pid_t> SelectJobProcesses(std::span<const ProcessEntry> processes,
                                      const std::map<pid_t, uint64_t>& sessions,
                                      pid_t self,
                                      pid_t own_session);

}  // namespace ddprun::launcher

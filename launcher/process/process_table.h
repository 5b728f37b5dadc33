// /proc: which processes there are, and which of them belong to a job.
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

// Whether /proc shows processes at all.
bool CanListProcesses();

// How processes of a job are recognised.
struct JobMarks {
  std::string job_id;  // DDPRUN_JOB_ID in their environment
  // Of the workers that have not been reaped, with the start times of their leaders.
  std::map<pid_t, uint64_t> sessions;
  std::set<uint64_t> pipes;  // inodes of the workers' stderr, which their children inherit
};

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  uint64_t start_time = 0;  // clock ticks since boot
  bool ended = false;       // a zombie
  bool marked = false;      // by its environment or a pipe
};

std::optional<ProcessEntry> ReadProcess(pid_t pid);

// All processes that can be seen, `marked` left false.
std::vector<ProcessEntry> ListProcesses();

// The children of this process, zombies included.
std::vector<ProcessEntry> ListChildren();

// Inodes of what its open descriptors are of that kind: "pipe" or "socket".
std::vector<uint64_t> DescriptorInodes(pid_t pid, std::string_view kind);

// Whether a job's environment or pipes mark the process. A pipe does so only for processes that
// are not older than `job_start`: a server that was there before may have been handed one.
bool IsMarked(const ProcessEntry& process, const JobMarks& marks, uint64_t job_start);

// Pure: drops the sessions whose number a process that started at another time has by now.
void DropReused(std::span<const ProcessEntry> processes, std::map<pid_t, uint64_t>& sessions);

// Whether an environment block (NAME=value, NUL between) carries DDPRUN_JOB_ID=`job_id`, or the id
// of a job within it: `job_id`/...
bool CarriesJobId(std::string_view environment_block, std::string_view job_id);

// Pure: the job's living processes: the marked ones, those in `sessions`, and all
// descendants of either. Never `self`, nor anything in `own_session`.
std::vector<pid_t> SelectJobProcesses(std::span<const ProcessEntry> processes,
                                      const std::map<pid_t, uint64_t>& sessions,
                                      pid_t self,
                                      pid_t own_session);

}  // namespace ddprun::launcher

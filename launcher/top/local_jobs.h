// Finds the jobs of ddprun that run on this machine, by /proc alone.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/process/process_table.h"

namespace ddprun::launcher {

struct LocalJob {
  pid_t agent = 0;  // the ddprun process
  uid_t owner = 0;
  bool readable = false;       // if not, the members below are empty
  std::string command = {};    // of the agent, printable
  std::string slurm_job = {};  // SLURM_JOB_ID of its environment
  // The flight recorder of its workers, opened read-only, and its number in the workers. Not valid
  // while the job has no workers: between two rounds, or before it has met the other nodes.
  UniqueFd recorder = {};
  int recorder_number = -1;
};

// Returns the jobs whose agents `processes` has, by pid of the agent. It reads a few files of each
// agent and asks no process for anything.
std::vector<LocalJob> FindLocalJobs(std::span<const ProcessEntry> processes);

// Returns the value of a variable in the environment with which the process began; "" if it has
// none or may not be read.
std::string VariableOf(pid_t pid, std::string_view name);

// Returns the name of the user, or the number if the user has no name.
std::string UserName(uid_t user);

}  // namespace ddprun::launcher

// The place of this process in a step of SLURM, from the environment that srun sets.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun {

// SLURM ends a job without a limit after 365 days. An end that is further away than this is none.
inline constexpr std::chrono::hours kNoSlurmLimit{364 * 24};

struct SlurmStep {
  std::string name;                // "17.0": job and step
  std::vector<std::string> nodes;  // of the step, in SLURM's order; one if SLURM gives no list
  std::vector<int> tasks;          // of each node
  size_t node = 0;                 // this node's place in `nodes`
  int task = 0;                    // of this process: 0 to num_tasks - 1
  int num_tasks = 1;
  int local_task = 0;  // among the tasks of this node

  int tasks_here() const { return tasks[node]; }

  // The number of this task if they are counted node by node, so that those of a node follow each
  // other and the first one is on the first node. `task` differs from it if SLURM deals tasks to
  // nodes in turn (--distribution=cyclic) or as a file says (arbitrary).
  int place() const;
};

// Returns whether srun has started this process or one above it. A batch script and the shell of
// salloc are steps of their own kind and do not count, though they have SLURM_PROCID.
bool IsSlurmStep(const Environment& env);

// Returns "17.0": job and step.
std::string SlurmStepName(const Environment& env);

// Reads the variables of a step of at most `max_tasks`. Nodes are told apart by their names and not
// by SLURM_NODEID, which differs from the place in the list if tasks are distributed arbitrarily.
// Returns kUsage if a variable is not as srun sets it, or if they contradict each other.
// REQUIRES: IsSlurmStep(env).
Result<SlurmStep> ReadSlurmStep(const Environment& env, int max_tasks);

}  // namespace ddprun

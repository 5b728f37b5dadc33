// The place of this process in its job, from the environment that a launcher sets.
#pragma once

#include "base/env.h"
#include "base/result.h"

namespace ddprun::trainer {

// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and GROUP_RANK, or srun's variables. A process
// without a launcher is rank 0 of 1.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
};

// Reads the variables. Returns kUsage if one is not a number, or if they contradict each other.
Result<RankInfo> ReadRankInfo(const Environment& environment);

// Returns whether srun itself has started this process. SLURM_PROCID alone does not show it,
// because a batch script has it, too; SLURM_STEP_ID does.
bool IsUnderSrun(const Environment& environment);

}  // namespace ddprun::trainer

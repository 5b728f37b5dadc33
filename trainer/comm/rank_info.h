// Where this process stands among the others, from the environment that a launcher sets.
#pragma once

#include "base/env.h"
#include "base/result.h"

namespace ddprun::trainer {

// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, or what srun says. A process started
// without a launcher is rank 0 of 1.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
};

// kUsage when a variable is no number, or the numbers contradict each other.
Result<RankInfo> ReadRankInfo(const Environment& environment);

// Whether srun itself has started this process. In a batch script SLURM_PROCID is there too; the
// step is not.
bool UnderSrun(const Environment& environment);

}  // namespace ddprun::trainer

// --virtual_local_rank: each worker sees its own GPU as device 0. Pure.
#pragma once

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Returns kUsage if CUDA_VISIBLE_DEVICES names fewer GPUs than there are workers, because each
// worker gets one entry of it.
Status CheckVirtualLocalRank(const Environment& base, int local_world_size);

// Makes CUDA_VISIBLE_DEVICES name only the worker's GPU, and sets LOCAL_RANK to 0. REQUIRES: `env`
// has passed CheckVirtualLocalRank().
void ShowOwnGpu(int local_rank, Environment& env);

}  // namespace ddprun::launcher

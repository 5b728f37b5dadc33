// A job that SLURM has put back into its queue may start on other nodes. If nodes do not share the
// run's folder, rank 0 must not begin the run anew without a word.
#pragma once

#include <ddprun/mesh.h>
#include "base/env.h"
#include "trainer/comm/rank_info.h"
#include "trainer/config/config.h"
#include "trainer/worker/resume.h"

namespace ddprun::trainer {

// Returns whether SLURM has started this job before.
bool IsRequeued(const Environment& environment);

// A collective of a requeued job, before a file is changed; otherwise does nothing. Rank 0 passes
// its `start`, the other ranks an empty one. If rank 0 has no checkpoint, the first rank of every
// other node looks for the run. Throws FailureOfAllRanks if a node has it (page
// "no-shared-folder"). If no node has it, adds a note to rank 0's `start`.
void AskNodesForRun(const Config& config,
                    const RankInfo& rank,
                    const Environment& environment,
                    RunStart& start,
                    c10d::Backend* control);

}  // namespace ddprun::trainer

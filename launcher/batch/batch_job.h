// The work of ddprun around a job of a batch system: it learns the job's times before, and puts the
// job back into the queue after.
#pragma once

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

using RunJobOptions = Result<int> (*)(Options options, const Environment& env);

// Calls `run` and returns its result. Inside a SLURM job, `run` gets an environment with the job's
// times (WithSlurmTimes), and with --requeue node rank 0 may then put the job back into the queue.
Result<int> RunInBatchJob(Options options, const Environment& env, RunJobOptions run);

}  // namespace ddprun::launcher

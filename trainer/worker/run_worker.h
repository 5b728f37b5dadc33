// One rank, from its environment to its exit status.
#pragma once

#include "base/env.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

// Trains the job as the rank that the environment names (ReadRankInfo). Errors go to stderr and
// to the error file that the launcher asked for (TORCHELASTIC_ERROR_FILE). Never throws.
int RunWorker(const Job& job, const Environment& environment);

}  // namespace ddprun::trainer

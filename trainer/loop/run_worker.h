// One rank, from its environment to its exit status.
#pragma once

#include "base/env.h"
#include "base/error.h"
#include "trainer/loop/job.h"

namespace ddprun::trainer {

// Trains the job as the rank that the environment names (ReadRankInfo). Errors go to stderr and
// to the error file that the launcher asked for (TORCHELASTIC_ERROR_FILE). Never throws.
int RunWorker(const Job& job, const Environment& environment);

// Says in the error file and, where wanted, on stderr why this process ends; returns its exit
// status.
int ReportFailure(const Error& error, const Environment& environment, bool on_stderr = true);

// The Error of the exception that is being handled. REQUIRES: called in a catch block.
Error CurrentError();

}  // namespace ddprun::trainer

// Finds the folder of a running run.
#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Returns the run folder of `job`: a run folder, or the number of a SLURM job (17, 17_3). Error:
// there is none, or nothing trains there ("no-such-run").
Result<std::string> FolderOfJob(const std::string& job, const Environment& env);

}  // namespace ddprun::launcher

// `ddprun submit` writes a batch file for SLURM and submits it.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Runs "ddprun submit `args`". Returns 0, or with --follow the exit code of the job.
Result<int> RunSubmit(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

// `ddprun stacks` prints the stacks of a job's ranks on this machine, and the job goes on.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Runs "ddprun stacks `args`".
Result<int> RunStacks(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

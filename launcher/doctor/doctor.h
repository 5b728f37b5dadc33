// `ddprun doctor`: what this machine can do, and what is missing.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// `args` after "doctor". Prints its findings; 0 when nothing is missing for what was asked for, 1
// when something is. Errors are kUsage.
Result<int> RunDoctor(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

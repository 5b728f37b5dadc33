// `ddprun doctor` shows what this machine can do, and what is missing.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Runs "ddprun doctor `args`" and prints its findings. Returns 1 if something is missing that the
// user asked for, else 0. Errors are kUsage.
Result<int> RunDoctor(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

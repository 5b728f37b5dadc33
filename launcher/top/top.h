// `ddprun top` shows the jobs of this machine and what each of their ranks does.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Runs "ddprun top `args`". It only reads: /proc, and the memory in which workers keep notes.
Result<int> RunTop(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

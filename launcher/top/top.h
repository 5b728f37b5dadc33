// `ddprun top` shows the jobs of this machine and what each of their ranks does, `ddprun stacks`
// the stacks of a job's ranks.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Runs "ddprun top `args`". It only reads: /proc, and the memory in which workers keep notes.
Result<int> RunTop(const std::vector<std::string>& args, const Environment& env);

// Runs "ddprun stacks `args`". py-spy, gdb or eu-stack reads the stacks and stops each rank for
// that time; the job goes on.
Result<int> RunStacks(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

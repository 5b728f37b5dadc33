// Variables that workers get unless the user has set them. Pure.
#pragma once

#include <string_view>

#include "base/env.h"

namespace ddprun::launcher {

// Sets the number of OpenMP threads, unless the user has set it: divides the cores evenly. torchrun
// sets 1, which leaves cores idle; for a single worker it sets nothing, and the worker then ignores
// cgroup limits.
void ShareCores(int cores, int workers, Environment& env);

// Sets the variables that are the same in all attempts, the number of OpenMP threads included.
void SetWorkerDefaults(int cores, int workers, Environment& env);

// Sets all of these variables. PyTorch's NCCL groups write the dumps of their flight recorder into
// the attempt's folder, where the reports read them; with --hang_timeout they have pipes in the
// job's folder, by which ddprun asks for dumps.
struct Attempt;
void SetWorkerDefaults(const Attempt& attempt, Environment& env);

// Returns whether SetWorkerDefaults() may set the variable.
bool IsWorkerDefault(std::string_view name);

}  // namespace ddprun::launcher

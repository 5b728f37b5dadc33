// Variables that workers get unless the user has set them. Pure.
#pragma once

#include <string_view>

#include "base/env.h"

namespace ddprun::launcher {

// Sets the number of OpenMP threads, unless the user has set it: divides the cores evenly. torchrun
// sets 1, which leaves cores idle; for a single worker it sets nothing, and the worker then ignores
// cgroup limits.
void ShareCores(int cores, int workers, Environment& env);

// Sets all of these variables, the number of OpenMP threads included.
void SetWorkerDefaults(int cores, int workers, Environment& env);

// Returns whether SetWorkerDefaults() sets the variable.
bool IsWorkerDefault(std::string_view name);

}  // namespace ddprun::launcher

// --hostfile: starts an agent on each host of a list by ssh, and ends them all together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Runs the job on the hosts of --hostfile, and returns its exit code; nullopt if there is no such
// flag in `args`, or if this process is the agent of one of the hosts. Error: kUsage, before
// anything has been started.
Result<std::optional<int>> StartHosts(const std::vector<std::string>& args, const Environment& env);

// `ddprun on_host`: reads orders from the standard input, runs an agent, passes signals on to it,
// and ends it when the input ends. Returns the agent's exit code.
Result<int> RunOnHost(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

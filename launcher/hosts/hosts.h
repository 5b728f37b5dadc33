// --hostfile: starts an agent on each host of a list by ssh, and ends them all together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

// Runs the job on the hosts of --hostfile, and returns its exit code; nullopt if there is no such
// flag in `args`, or if this process is the agent of one of the hosts. --dry_run prints the
// commands instead, and returns what `check` says of the job's options. Error: kUsage, before
// anything has been started.
using CheckOptionsFunction = Result<int> (*)(const Options& options, const Environment& env);
Result<std::optional<int>> StartHosts(const std::vector<std::string>& args,
                                      const Environment& env,
                                      CheckOptionsFunction check);

// `ddprun on_host`: writes kReadyLine, reads orders from the standard input, and becomes the agent.
// Another process reads the rest of the input: each byte is a signal for the agent, and the end
// means SIGTERM. Returns only errors.
Result<int> RunOnHost(const std::vector<std::string>& args, const Environment& env);

// The output before this line comes from ssh and the login's shell.
inline constexpr std::string_view kReadyLine = "\nddprun is ready on this host\n";

// Orders are texts, each with a NUL behind it: first a letter, then an argument of ddprun or
// NAME=value. An empty text ends them. They travel on the standard input, so that no shell reads
// them and no other user sees them in a list of processes.
inline constexpr char kArgumentOrder = 'a';
inline constexpr char kVariableOrder = 'v';

}  // namespace ddprun::launcher

// The processes that --hostfile starts: the command and the orders for each host.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

struct HostStart {
  std::string host;                  // as ssh takes it: HOST or USER@HOST
  std::vector<std::string> command;  // runs RunOnHost(); its first word is a path
  std::string orders;                // for RunOnHost()
};

struct HostsPlan {
  std::vector<HostStart> starts;
  Options options;             // of the first host's agent
  bool meets_at_first = true;  // the agents meet on the first host
};

// Reads `file` and checks `args`, the words of the command line. `ssh_command` reaches a host; it
// gets the host and a command behind it. Error: kUsage, or kNotFound.
Result<HostsPlan> MakeHostsPlan(const std::string& file,
                                const std::string& ssh_command,
                                const std::vector<std::string>& args,
                                const Environment& env);

}  // namespace ddprun::launcher

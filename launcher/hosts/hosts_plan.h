// The processes that --hostfile starts: the command and the orders for each host.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/hosts/host_file.h"
#include "launcher/hosts/host_orders.h"

namespace ddprun::launcher {

struct HostsPlan {
  std::vector<Host> hosts;
  std::vector<std::vector<std::string>> commands;  // by host
  std::vector<HostOrders> orders;                  // by host
  Options options;                                 // of the first host's agent
};

// Reads `file` and checks `args`, the words of the command line. `ssh_command` reaches a host; it
// gets the host and a command behind it. Error: kUsage, or kNotFound.
Result<HostsPlan> MakeHostsPlan(const std::string& file,
                                const std::string& ssh_command,
                                const std::vector<std::string>& args,
                                const Environment& env);

}  // namespace ddprun::launcher

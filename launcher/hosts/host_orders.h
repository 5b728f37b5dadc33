// The orders that ddprun on a host gets by its standard input: no shell reads them, and no other
// user sees them in a list of processes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"

namespace ddprun::launcher {

struct HostOrders {
  std::string folder;             // where the agent starts
  std::vector<std::string> args;  // of ddprun
  std::vector<std::string> env;   // NAME=value, besides what the host's login sets
};

// Returns the orders as bytes. After them, each byte of the standard input is a signal's number.
std::string WriteOrders(const HostOrders& orders);

// Returns the orders once `bytes` has all of them; nullopt before. `bytes` then begins behind them.
std::optional<HostOrders> TakeOrders(std::string& bytes);

// Returns the variables that the agents on other hosts get: all but those that belong to this host,
// this login or this terminal, such as HOME, and those of the job in which this process runs.
std::vector<std::string> SharedVariables(const Environment& env);

}  // namespace ddprun::launcher

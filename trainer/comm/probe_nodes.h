// Finds out before the ranks connect whether the nodes reach each other at all: a connection waits
// for minutes at a firewall, and says nothing.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "trainer/comm/exchange.h"

namespace ddprun::trainer {

// Probes all other nodes, and returns when they have probed this one. A collective of the first
// rank of each node: `first_ranks` gives it by the node's number, and this is `node`. `devices` are
// UCX's names; `own_address` is this node's address on them; it may be empty. Does nothing
// if the data does not go over ports that the kernel chooses: over RDMA, or with the user's own
// UCX_* variables. Error: kDeadlineExceeded, or kFailed if a node refuses; it names node, address
// and port.
Status ProbeNodes(const Environment& environment,
                  const std::vector<std::string>& devices,
                  const std::string& own_address,
                  int node,
                  const std::map<int, int>& first_ranks,
                  const Exchange& exchange,
                  std::chrono::milliseconds timeout);

}  // namespace ddprun::trainer

// Finds out before UCX connects whether the nodes reach each other at all: UCX waits for minutes at
// a firewall, and says nothing.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "rendezvous/store/tcp_store.h"

namespace ddprun::trainer {

// Probes all other nodes, and returns when they have probed this one. A collective of one rank of
// each of the nodes 0 to `nodes` - 1, in which this is `node`; `prefix` begins the keys in the
// store that they use. `devices` are UCX's names. Does nothing if the data does not go over ports
// that the kernel chooses: over RDMA, or with the user's own UCX_* variables. Error:
// kDeadlineExceeded, or kFailed if a node refuses; it names node, address and port.
Status ProbeNodes(const Environment& environment,
                  const std::vector<std::string>& devices,
                  int node,
                  const std::vector<int>& nodes,
                  const std::string& prefix,
                  rendezvous::TcpStore& store,
                  std::chrono::milliseconds timeout);

}  // namespace ddprun::trainer

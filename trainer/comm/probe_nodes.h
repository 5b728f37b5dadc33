// Finds out before UCX connects whether the nodes reach each other at all: UCX waits for minutes at
// a firewall, and says nothing.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/env.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "rendezvous/store/tcp_store.h"

namespace ddprun::trainer {

// Connects to addresses ("10.0.0.1 4711" by node) at the same time, and returns when all have
// answered. Error: kDeadlineExceeded, or kFailed if a node refuses; it names node, address and
// port.
Status ProbeAddresses(const std::map<int, std::string>& address_of_node,
                      std::chrono::milliseconds timeout);

// Opens a port of `address`, a literal, which answers until `listener` is closed. Returns
// "address port", or "" if other nodes could not use it, such as that of 127.0.0.1.
std::string OpenProbePort(const std::string& address, UniqueFd& listener);

// Probes all other nodes, and returns when they have probed this one. A collective of one rank of
// each of the nodes 0 to `nodes` - 1, in which this is `node`; `prefix` begins the keys in the
// store that they use. `devices` are UCX's names. Does nothing if the data does not go over ports
// that the kernel chooses: over RDMA, or with the user's own UCX_* variables.
Status ProbeNodes(const Environment& environment,
                  const std::vector<std::string>& devices,
                  int node,
                  const std::vector<int>& nodes,
                  const std::string& prefix,
                  rendezvous::TcpStore& store,
                  std::chrono::milliseconds timeout);

}  // namespace ddprun::trainer

// What the c10d back end says to its users. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rendezvous/elastic/round_actions.h"
#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

// "4" or "2 to 4".
std::string NnodesText(int min_nodes, int max_nodes);

// "hpc17, pid 4711" and "node 3 (hpc17, pid 4711)".
std::string NameOf(const NodeInfo& info);
std::string NodeText(int rank, const NodeInfo& info);

// The nodes did not come in time. `line` is the last progress line.
Error NodesDidNotCome(std::string_view line, std::chrono::milliseconds waited);

// Whoever comes after the end of the job. `failure`: empty when it ended well.
Error JobHasEnded(std::string_view failure);

// Another node of this job was started with other numbers. `what`: "--nnodes", for instance.
Error NodesDisagree(std::string_view what, std::string_view here, std::string_view there);

// A node cannot reach the store of the node with rank 0, so no worker could; without a port: that
// node itself could not open it.
Error NodesCannotReach(std::string_view node,
                       std::string_view master,
                       const HostPort& store,
                       std::string_view problem);

// A node of the next round fell silent before the round had begun.
Error NodeDidNotAnswer(std::string_view node, std::chrono::milliseconds waited);

// Nobody answered at the endpoint before the deadline. `is_elsewhere`: it is known to be an address
// of another machine.
Error NoCoordinator(const HostPort& endpoint,
                    std::string_view problem,
                    std::chrono::milliseconds waited,
                    bool is_elsewhere);

// Something else than ddprun listens at the endpoint, or a version that cannot be understood.
Error NotACoordinator(const HostPort& endpoint, std::string_view problem);

// The node that hosts the rendezvous is gone.
Error CoordinatorLost(const HostPort& endpoint, std::string_view reason);

}  // namespace ddprun::rendezvous

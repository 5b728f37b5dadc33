// Texts of the c10d back end for its users. Pure.
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

// A node came after the job had ended. `failure` is "" if the job ended well.
Error JobHasEnded(std::string_view failure);

// Another node of this job has another value for `what`, such as "--nnodes".
Error NodesDisagree(std::string_view what, std::string_view here, std::string_view there);

// A node cannot reach the store on the node of rank 0, so its workers could not, either. If `store`
// has no port, the node of rank 0 could not open it.
Error NodesCannotReach(std::string_view node,
                       std::string_view master,
                       const HostPort& store,
                       std::string_view problem);

// A node of the next round did not answer, so the round could not begin with it.
Error NodeDidNotAnswer(std::string_view node, std::chrono::milliseconds waited);

// No coordinator answered at the endpoint before the deadline. `is_elsewhere` means that the
// endpoint is an address of another machine.
Error NoCoordinator(const HostPort& endpoint,
                    std::string_view problem,
                    std::chrono::milliseconds waited,
                    bool is_elsewhere);

// The program at the endpoint is not ddprun, or is a version that this one cannot understand.
Error NotACoordinator(const HostPort& endpoint, std::string_view problem);

// The connection to the coordinator ended while the job needed it.
Error CoordinatorLost(const HostPort& endpoint, std::string_view reason);

}  // namespace ddprun::rendezvous

// What a rendezvous says to its user: progress and errors. Pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rendezvous/backend.h"

namespace ddprun::rendezvous {

// "30 s", "1500 ms", "10 min".
std::string DurationText(std::chrono::milliseconds time);

// kUsage when there can be no such nodes, or they cannot meet (pages "nnodes", "endpoint").
Status CheckNodes(const RendezvousOptions& options);

// An error of the rendezvous. `where`: "" where it is of no one place.
Error RendezvousError(
    std::string title, std::string what, std::string hint, std::string where, std::string page);

// "0, 2, 5-9"; of many the first ones, and how many more there are.
std::string ListRanks(std::span<const int> sorted_ranks);

// "2 of 4 nodes joined, missing: 2, 3".
std::string DescribeJoined(int nnodes, std::span<const int> missing);

// The nodes did not all come within `waited`. `joined`: as of DescribeJoined; may be empty on a
// node that only knows that the ranks have not been given out.
Error NodesMissing(const HostPort& store,
                   bool hosted_here,
                   std::string_view joined,
                   std::chrono::milliseconds waited);

// Node 0 does not get to know its own addresses.
Error NoOwnName(const HostPort& endpoint, std::chrono::milliseconds waited);

// Two nodes say the same --node_rank.
Error NodeRankTaken(int node_rank, std::string_view other_host);

// Node 0 belongs to another job.
Error RunIdsDiffer(std::string_view here, std::string_view on_node_0, std::string_view host);

// Node 0 was started for another number of nodes.
Error NnodesDiffer(int here, int on_node_0);

// A node's agent ended between two rounds of a job whose nodes are fixed.
Error NodeLost(std::string_view message);

// The other side wrote something that cannot be understood.
Error BadPeerData(const HostPort& store, std::string_view key, std::string_view value);

}  // namespace ddprun::rendezvous

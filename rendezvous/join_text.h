// Texts of a rendezvous for its user: progress lines and errors. Pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rendezvous/rendezvous_options.h"

namespace ddprun::rendezvous {

// Returns a text such as "30 s", "1500 ms" or "10 min".
std::string DurationText(std::chrono::milliseconds time);

// Returns kUsage if the number of nodes is impossible (page "nnodes"), or if several nodes have no
// endpoint at which to meet (page "endpoint").
Status CheckNodes(const RendezvousOptions& options);

// Returns kUsage if a job with a fixed number of nodes has no such node rank (page "node-rank").
Status CheckNodeRank(const RendezvousOptions& options);

// Returns an error with Code::kRendezvous. `where` may be "" if the error has no single place.
Error RendezvousError(
    std::string title, std::string what, std::string hint, std::string where, std::string page);

// Returns "0, 2, 5-9". If there are too many groups, the text has only the number of the rest.
std::string ListRanks(std::span<const int> sorted_ranks);

// "2 of 4 nodes joined, missing: 2, 3".
std::string DescribeJoined(int nnodes, std::span<const int> missing);

// Some nodes did not join within `waited`. `joined` is a text of DescribeJoined(); it may be empty
// on a node that only knows that node 0 has not given out the ranks.
Error NodesMissing(const HostPort& store,
                   bool hosted_here,
                   std::string_view joined,
                   std::chrono::milliseconds waited);

// Node 0 cannot resolve the name in `endpoint`, so it does not know where to listen.
Error NoOwnName(const HostPort& endpoint, std::chrono::milliseconds waited);

// Another process has joined with this --node_rank.
Error NodeRankTaken(int node_rank, std::string_view other_host);

// Node 0 belongs to another job.
Error RunIdsDiffer(std::string_view here, std::string_view on_node_0, std::string_view host);

// Node 0 was started for another number of nodes.
Error NnodesDiffer(int here, int on_node_0);

// A job with a fixed number of nodes cannot restart, because a node is lost.
Error NodeLost(std::string_view message);

// A key in the store has a value that no launcher writes there.
Error BadPeerData(const HostPort& store, std::string_view key, std::string_view value);

}  // namespace ddprun::rendezvous

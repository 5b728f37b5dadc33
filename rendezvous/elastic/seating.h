// Which node gets which node rank in a round. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddprun::rendezvous {

using NodeId = uint64_t;  // of one connection to the coordinator; later ones are greater

// A node that can take part in the next round.
struct Candidate {
  NodeId id = 0;                        // also the order in which they came
  std::optional<int> seat = {};         // its node rank in the round before
  std::optional<int> wished_rank = {};  // --node_rank
};

// The nodes of the round by node rank, at most `max_nodes`. Who took part before goes before who
// did not, then who came first. A node keeps its rank where it can; one whose rank is beyond the
// smaller round, and newcomers, fill the holes: a newcomer at the rank it wished if that is a
// hole, the others by wish, then in the order in which they came.
std::vector<NodeId> SeatNodes(std::span<const Candidate> candidates, int max_nodes);

}  // namespace ddprun::rendezvous

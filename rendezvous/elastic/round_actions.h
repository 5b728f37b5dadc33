// What the coordinator knows of jobs and nodes, which node gets which rank in a round, and what it
// tells the nodes. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "rendezvous/backend.h"

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

// What a node says about itself.
struct NodeInfo {
  std::string host;
  int pid = 0;
  std::optional<int> wished_rank = {};
  int local_world_size = 1;
  std::string role = "default";
};

// What the coordinator tells a node. `attempt` numbers the tries to form a round, so that what
// crosses on the way is not taken for the next one.
struct OpenStore {  // to the node that will have rank 0: answered by OnOpened
  int64_t attempt = 0;
};
struct ReachStore {  // to every node: answered by OnReached or OnUnreached
  int64_t attempt = 0;
  Membership membership = {};
};
struct StartRound {
  int64_t attempt = 0;
};
struct TellEnd {
  int64_t attempt = 0;
  RoundEnd end = {};
};
struct AllLeft {  // every node's workers ended well: the job is done
  int64_t attempt = 0;
};
struct RefuseJoin {  // its Join fails with this
  Error error;
};
struct TellProgress {
  std::string line;
};
struct Outgoing {
  NodeId to = 0;
  std::variant<OpenStore, ReachStore, StartRound, TellEnd, AllLeft, RefuseJoin, TellProgress> what;
};
using Actions = std::vector<Outgoing>;

}  // namespace ddprun::rendezvous

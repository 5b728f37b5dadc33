// What the coordinator knows of jobs and nodes, and what it tells the nodes. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "rendezvous/elastic/seating.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

// The same on all nodes of a job; the first node's count.
struct JobRules {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};

  bool elastic() const { return min_nodes < max_nodes; }
};

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

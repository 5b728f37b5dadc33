// Describes nodes, chooses the node ranks of a round, and lists the coordinator's messages to
// nodes. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <ddprun/error.h>
#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

using NodeId = uint64_t;  // of one connection to the coordinator; later ones are greater

// A node that can take part in the next round.
struct Candidate {
  NodeId id = 0;                        // nodes that came later have greater ids
  std::optional<int> seat = {};         // its node rank in the round before
  std::optional<int> wished_rank = {};  // --node_rank
};

// Returns the nodes of the next round by node rank. If there are more than `max_nodes`, nodes of
// the round before are preferred, then nodes that came first. A node keeps its rank if the new
// round has it. Free ranks go to newcomers that wished them, then to nodes whose rank is beyond the
// new round, then to the other newcomers by wish and by order of arrival.
std::vector<NodeId> SeatNodes(std::span<const Candidate> candidates, int max_nodes);

// A node's last round, which a coordinator formed that is lost.
struct Past {
  int rounds = 0;    // of the job, with that one
  int restarts = 0;  // of the job
  int nodes = 0;     // of that round
};

// The facts that a node states about itself.
struct NodeInfo {
  std::string host;
  int pid = 0;
  std::optional<int> wished_rank = {};
  int local_world_size = 1;
  std::string role = "default";
  std::optional<Past> past = {};
};

// The coordinator's messages to a node. `attempt` numbers the attempts to form a round, so that a
// late message is not taken for one of the next attempt.
struct OpenStore {  // to the node that will have rank 0; OnOpened() is for its answer
  int64_t attempt = 0;
};
struct ReachStore {  // to every node; OnReached() and OnUnreached() are for the answers
  int64_t attempt = 0;
  Membership membership = {};
};
struct StartRound {
  int64_t attempt = 0;
  bool stands_in = false;  // one node joins a round that runs
};
// Another node is lost. OnAnswer() is for the answer: can this node's workers wait until those of a
// spare take part in its place?
struct AskToGoOn {
  int64_t attempt = 0;
  std::string loss = {};  // "node 3 (hpc17, pid 4711) is gone: its connection was closed"
};
struct ReportEnd {
  int64_t attempt = 0;
  RoundEnd end = {};
};
struct AllLeft {  // every node's workers ended well: the job is done
  int64_t attempt = 0;
};
struct RefuseJoin {  // the node's Join() fails with `error`
  Error error;
};
struct ReportProgress {
  std::string line;
};
struct Outgoing {
  NodeId to = 0;
  std::variant<OpenStore,
               ReachStore,
               StartRound,
               AskToGoOn,
               ReportEnd,
               AllLeft,
               RefuseJoin,
               ReportProgress>
      what;
};
using Actions = std::vector<Outgoing>;

// Returns whether the message says how the job ended. The node answers that it has heard it.
inline bool IsResult(const Outgoing& outgoing) {
  if (const auto* end = std::get_if<ReportEnd>(&outgoing.what)) {
    return end->end.kind == RoundEnd::Kind::kJobFailed;
  }
  return std::holds_alternative<AllLeft>(outgoing.what) ||
         std::holds_alternative<RefuseJoin>(outgoing.what);
}

}  // namespace ddprun::rendezvous

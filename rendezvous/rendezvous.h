// SEAM: how the nodes of a job come together, hear of each other's failures and part. Everything
// runs on the agent's event loop, so its signals and its own store server are served meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace ddprun::rendezvous {

// This node's place in one round.
struct Membership {
  int round = 0;      // counts joins, the same on every node
  int node_rank = 0;  // GROUP_RANK
  int nnodes = 1;     // GROUP_WORLD_SIZE
  int base_rank = 0;  // RANK of this node's first worker
  int world_size = 1;
  int role_base_rank = 0;  // ROLE_RANK of this node's first worker
  int role_world_size = 1;
  std::string master_addr;  // where workers find the store
  uint16_t master_port = 0;
};

// Another node cannot go on.
struct PeerFailure {
  int node_rank = -1;  // -1: unknown, the store itself went away
  std::string message;
};

// Loop thread only. Handlers are called from the loop, never from within the call that takes
// them; destroying the rendezvous drops them.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // Starts the first round or, after the round before has ended on this node, the next one. Calls
  // `done` once: the membership, or an Error (kRendezvous) that says who is missing.
  // All nodes must join equally often.
  virtual void Join(std::function<void(Result<Membership>)> done) = 0;

  // After a successful Join, for this round: calls `handler` at most once, when another node
  // reports a failure, when its agent is gone, or when the store is.
  virtual void WatchPeers(std::function<void(PeerFailure)> handler) = 0;

  // Tells the other nodes that this one failed in this round (`message`: one line, which rank and
  // how; also for a signal that only this node got). `done` when they have been told, or after
  // about a second. The first message of a round stays.
  virtual void ReportFailure(const std::string& message, std::function<void()> done) = 0;

  // This node's workers ended well: `done` when all nodes' have. The store's host stays until
  // then, because other workers may need the store. An Error when the store goes away; a peer's
  // failure meanwhile comes through WatchPeers, and `done` then never comes.
  virtual void Leave(std::function<void(Status)> done) = 0;
};

}  // namespace ddprun::rendezvous

// SEAM: how the nodes of a job come together, hear of each other's failures and part. Everything
// runs on the agent's event loop, so its signals and its own store server are served meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace ddprun::rendezvous {

class StoreServer;

// This node's place in one round.
struct Membership {
  int round = 0;  // counts joins, the same on every node
  // How many rounds have ended with kRestart, on whatever node: the same number on every node.
  int restart_count = 0;
  int node_rank = 0;  // GROUP_RANK
  int nnodes = 1;     // GROUP_WORLD_SIZE
  int base_rank = 0;  // RANK of this node's first worker
  int world_size = 1;
  int role_base_rank = 0;  // ROLE_RANK of this node's first worker
  int role_world_size = 1;
  std::string master_addr;  // where workers find the store
  uint16_t master_port = 0;
};

// Why a round ends, on every node, before its workers have all ended well.
struct RoundEnd {
  enum class Kind {
    kJobFailed,  // for good: stop the workers and end with this result
    kRestart,    // a worker failed and restarts are left: stop the workers, then Join again
    kRegroup,    // nodes came or went: as kRestart, but no restart is used up
  };
  Kind kind = Kind::kJobFailed;
  int node_rank = -1;        // of the node that it began with; -1: unknown, or the store went away
  std::string message = {};  // one line: which rank and how
  int exit_code = 1;         // what ddprun ends with on every node, if this ends the job
  // For the launchers of the other nodes, passed on as it is: what is known of the worker that
  // failed first (PeerWorker). Null: nothing.
  std::shared_ptr<const nlohmann::json> worker = nullptr;
};

constexpr std::string_view NameOf(RoundEnd::Kind kind) {
  return kind == RoundEnd::Kind::kJobFailed ? "failed"
         : kind == RoundEnd::Kind::kRestart ? "restart"
                                            : "regroup";
}

// Loop thread only. Handlers are called from the loop, never from within the call that takes
// them; destroying the rendezvous drops them.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // Starts the first round or, after the round before has ended on this node, the next one. Calls
  // `done` once: the membership, or an Error (kRendezvous) that says who is missing.
  // All nodes must join equally often.
  virtual void Join(std::function<void(Result<Membership>)> done) = 0;

  // After a successful Join, for this round: calls `handler` at most once, when another node ends
  // the round, when its agent is gone, when nodes come or go, or when the store is gone.
  virtual void WatchRound(std::function<void(RoundEnd)> handler) = 0;

  // Ends the round on all nodes (also for a signal that only this node got); `end` gets this node's
  // rank. `done` when they have been told, or after about a second; before a restart not until it
  // is known how the round ended. The first end of a round stays: if another one was first,
  // WatchRound's handler is called with it before `done`.
  virtual void EndRound(RoundEnd end, std::function<void()> done) = 0;

  // This node leaves for good although its workers have not ended (it was told to stop). The
  // others go on without it if they may, otherwise the job fails as `end` says. `done` as of
  // EndRound.
  virtual void Withdraw(RoundEnd end, std::function<void()> done) = 0;

  // This node's workers ended well: `done` when all nodes' have. The store's host stays until
  // then, because other workers may need the store. An Error when the store goes away; if the
  // round ends otherwise meanwhile, that comes through WatchRound, and `done` then never comes.
  virtual void Leave(std::function<void(Status)> done) = 0;

  // After Leave, before its `done`: whether this node may end all the same. The others know that
  // its workers ended well, and it hosts neither their store nor the place where nodes meet.
  virtual bool may_go() const = 0;

  // The server that this round's workers use, on the node that hosts it (for what they wait on
  // when a job hangs); null elsewhere.
  virtual const StoreServer* worker_store() const = 0;
};

// `node`, which its handlers hold, as a Rendezvous that stops when it is let go of.
template <typename Node>
std::shared_ptr<Rendezvous> Owned(std::shared_ptr<Node> node) {
  Rendezvous* const interface = node.get();
  return {interface, [node = std::move(node)](Rendezvous*) { node->Stop(); }};
}

}  // namespace ddprun::rendezvous

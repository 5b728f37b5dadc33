// SEAM: how the nodes of a job join, learn of each other's failures and leave. Everything runs on
// the agent's event loop, so that the loop serves signals and the store's server meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace ddprun::rendezvous {

class StoreServer;

// This node's place in one round.
struct Membership {
  int round = 0;  // counts joins; equal on every node
  // Number of rounds that have ended with kRestart; equal on every node.
  int restart_count = 0;
  int node_rank = 0;  // GROUP_RANK
  int nnodes = 1;     // GROUP_WORLD_SIZE
  int base_rank = 0;  // RANK of this node's first worker
  int world_size = 1;
  int role_base_rank = 0;  // ROLE_RANK of this node's first worker
  int role_world_size = 1;
  std::string master_addr;  // where workers find the store
  uint16_t master_port = 0;
  bool stands_in = false;  // this node takes the place of a lost one in a round that goes on
};

// Why a round ends on every node before all workers have ended well.
struct RoundEnd {
  enum class Kind {
    kJobFailed,  // the job is over: stop the workers and end with this result
    kRestart,    // a worker failed and restarts are left: stop the workers, then Join again
    kRegroup,    // nodes came or went: like kRestart, but it uses up no restart
  };
  Kind kind = Kind::kJobFailed;
  int node_rank = -1;        // of the node that caused the end; -1 means that none is known
  std::string message = {};  // one line: which rank and how
  int exit_code = 1;         // exit code of ddprun on every node if kind is kJobFailed
  // On this node only: its workers must end in this time, because others may start new ones.
  std::optional<std::chrono::milliseconds> stop_within = {};
  // All that is known of the worker that failed first (PeerWorker). The rendezvous passes it on to
  // the other nodes unchanged. nullptr means that nothing is known.
  std::shared_ptr<const nlohmann::json> worker = nullptr;
};

constexpr std::string_view NameOf(RoundEnd::Kind kind) {
  return kind == RoundEnd::Kind::kJobFailed ? "failed"
         : kind == RoundEnd::Kind::kRestart ? "restart"
                                            : "regroup";
}

// One node's side of the rendezvous. Use it on the loop thread only. Handlers are called from the
// loop, never from within the call that takes them; destroying the rendezvous drops them.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // Starts the first round or, after a round has ended on this node, the next one. Calls `done`
  // once with the membership, or with an Error (kRendezvous) that says who is missing. All nodes
  // must join equally often.
  virtual void Join(std::function<void(Result<Membership>)> done) = 0;

  // Calls `handler` at most once in a round that this node has joined: if another node ends the
  // round, if another node's agent dies, if nodes come or go, or if the store is lost; and once
  // more, with stop_within, if the place where the nodes meet is lost after that.
  virtual void WatchRound(std::function<void(RoundEnd)> handler) = 0;

  // A spare may take the place of a lost node if `can_go_on` returns true on all others: whether
  // the workers there can wait for new ones. Otherwise, and without this call, the round ends.
  virtual void WhenNodeIsLost(const std::function<bool()>& /*can_go_on*/) {}

  // Ends the round on all nodes, and sets the node rank of `end`. Calls `done` when the other nodes
  // know, or after about a second; before a restart, the static back end waits until it knows how
  // the round ended. If another end was first, that first end counts: WatchRound's handler gets it
  // before `done`.
  virtual void EndRound(RoundEnd end, std::function<void()> done) = 0;

  // Leaves for good although this node's workers have not ended, because a signal stops this node.
  // The other nodes continue without it if the back end allows it; otherwise the job fails with
  // `end`. Calls `done` when the other nodes know, or after about a second.
  virtual void Withdraw(RoundEnd end, std::function<void()> done) = 0;

  // Leaves because this node's workers have ended well. Calls `done` when the workers of all nodes
  // have, because until then they may need this node's store; calls it with an Error if the store
  // is lost. If the round ends in another way, WatchRound's handler is called, and `done` is not.
  virtual void Leave(std::function<void(Status)> done) = 0;

  // Returns whether this node may end after Leave() although `done` has not been called: it hosts
  // neither the workers' store nor the place where nodes meet.
  virtual bool may_go() const = 0;

  // Returns the store server that this round's workers use; nullptr if another node hosts it. A
  // report of a hang reads from it which keys the workers wait for.
  virtual const StoreServer* worker_store() const = 0;
};

}  // namespace ddprun::rendezvous

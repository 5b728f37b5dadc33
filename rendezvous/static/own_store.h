// Internal to kStaticBackend: on node 0, where the job's stores listen.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <asio/steady_timer.hpp>

#include "rendezvous/net/async_resolve.h"
#include "rendezvous/static/node_identity.h"
#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

// Opens the stores of a job on node 0. A single node replaces its store in every round, at the same
// port. Several nodes keep the first store for their agents, and the workers of later rounds get
// another one.
class OwnStore {
 public:
  OwnStore(StaticNode& node, NodeIdentity& identity)
      : node_(node), identity_(identity), pause_(node.io) {}

  // Opens this round's store and calls `then`. Fails the join if the store cannot listen. With
  // several nodes, also names this node as the host, and looks for a second host.
  void Open(std::function<void()> then);
  // Prepares for the next round, or drops the handlers for good.
  void Reset();

 private:
  void LookUpOwn();
  void Listen();
  void Publish(uint16_t port);

  StaticNode& node_;
  NodeIdentity& identity_;
  std::function<void()> then_;
  std::vector<asio::ip::address> addresses_;  // where the stores listen; empty means all
  std::unique_ptr<AsyncResolve> resolve_;
  asio::steady_timer pause_;  // between two attempts to resolve
};

}  // namespace ddprun::rendezvous

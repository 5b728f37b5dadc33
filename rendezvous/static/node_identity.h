// Internal to kStaticBackend: who has a node rank, and who hosts the store.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

// A node's identity is a text under its key in the store. It names the host and the job, and it
// differs between any two processes.
class NodeIdentity {
 public:
  explicit NodeIdentity(StaticNode& node);

  // Takes the node rank, checks that node 0 has the same job, and calls `then`. Fails the join if
  // another process has the node rank, or if node 0 belongs to another job.
  void ClaimRank(std::function<void()> then);
  // On node 0: names this node as the store's host.
  void PublishHost();
  // On node 0: fails the join if a second node 0 answers at the endpoint, which is no known address
  // of this machine. The endpoint may still lead back to this process.
  void FindSecondHost();
  // On node 0: fails the join with `taken`, or with an error that says who has the port.
  void FailWithoutPort(const Error& taken);
  // Ends FindSecondHost().
  void Reset() { host_query_.reset(); }

 private:
  void CheckHost(std::function<void()> then);
  void AskWhoHosts(std::chrono::milliseconds timeout,
                   std::function<void(const std::optional<std::string>& identity)> then);

  StaticNode& node_;
  const std::string text_;
  std::unique_ptr<StoreConnection> host_query_;  // asks who else hosts a store
};

}  // namespace ddprun::rendezvous

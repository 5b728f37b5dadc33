// Measures one link between two nodes: latency, bandwidth and the difference of their clocks.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "launcher/doctor/node_report.h"
#include "rendezvous/net/listener.h"

namespace ddprun::launcher {

// Answers other nodes' link tests on a thread of its own, at a free port of all addresses.
class LinkServer {
 public:
  static Result<std::unique_ptr<LinkServer>> Start();
  // Waits for tests that are under way, for a few seconds at most.
  ~LinkServer();
  LinkServer(const LinkServer&) = delete;
  LinkServer& operator=(const LinkServer&) = delete;

  uint16_t port() const { return listeners_.port; }

 private:
  explicit LinkServer(rendezvous::Listeners listeners);
  void Run();

  rendezvous::Listeners listeners_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> tests_;
  std::thread thread_;
};

// Tests the link to `peer`, in a bounded time. Leaves `from` and `to` alone.
LinkFacts TestLink(const NodeFacts& peer);

}  // namespace ddprun::launcher

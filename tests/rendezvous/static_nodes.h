// The nodes of a static job on one loop: what one does is seen by the others in its turns.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/backends.h"
#include "rendezvous/net/socket.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/unused_port.h"

namespace ddprun::rendezvous {

class StaticNodesTest : public testing::Test {
 protected:
  struct Node {
    std::shared_ptr<Rendezvous> rendezvous;
    std::optional<Result<Membership>> joined;
    std::optional<RoundEnd> failure;
    std::optional<Status> left;
    bool reported = false;
    std::vector<std::string> lines;
  };

  RendezvousOptions Options(int nnodes, int node_rank) {
    RendezvousOptions options;
    options.rules.max_nodes = nnodes;
    options.node_rank = node_rank;
    options.endpoint = {"127.0.0.1", port_};
    options.rules.join_timeout = std::chrono::seconds(20);
    options.progress_interval = std::chrono::milliseconds(5);
    return options;
  }

  Node& Start(RendezvousOptions options) {
    Node& node = nodes_[options.node_rank.value_or(0)];
    options.on_progress = [&node](const std::string& line) { node.lines.push_back(line); };
    node.rendezvous = *kStaticBackend.make(io_, options);
    Join(node);
    return node;
  }

  void Join(Node& node) {
    node.joined.reset();
    node.failure.reset();
    node.rendezvous->Join([&node](Result<Membership> joined) {
      node.joined = std::move(joined);
      if (!node.joined->has_value()) return;
      node.rendezvous->WatchRound([&node](RoundEnd failure) { node.failure = failure; });
    });
  }

  void StartAll(int nnodes) {
    for (int rank = 0; rank < nnodes; ++rank) Start(Options(nnodes, rank));
    RunUntil([&] { return AllJoined(); });
  }

  bool AllJoined() {
    return std::ranges::all_of(nodes_, [](auto& node) {
      return node.second.joined.has_value() && node.second.joined->has_value();
    });
  }

  template <typename Condition>
  void RunUntil(Condition condition) {
    const Deadline deadline = Soon();
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nothing came of it";
      io_.run_one_for(std::chrono::milliseconds(100));
    }
  }

  asio::io_context io_;
  uint16_t port_ = UnusedPort();
  std::map<int, Node> nodes_;
};

}  // namespace ddprun::rendezvous

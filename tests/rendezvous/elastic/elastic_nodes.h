// The nodes of a c10d job on one loop: what one does is seen by the others in its turns.
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

class ElasticNodesTest : public testing::Test {
 protected:
  struct Node {
    std::shared_ptr<Rendezvous> rendezvous;
    std::optional<Result<Membership>> joined;
    std::optional<RoundEnd> end;
    std::optional<Status> left;
    bool reported = false;
    std::vector<std::string> lines;

    bool running() const { return joined && joined->has_value(); }
    const Membership& membership() const { return **joined; }
  };

  RendezvousOptions Options(int min_nodes, int max_nodes, int max_restarts = 0) {
    RendezvousOptions options;
    options.rules.min_nodes = min_nodes;
    options.rules.max_nodes = max_nodes;
    options.rules.max_restarts = max_restarts;
    options.rules.join_timeout = std::chrono::seconds(20);
    options.rules.last_call_timeout = std::chrono::milliseconds(1);
    options.endpoint = {"127.0.0.1", port_};
    options.progress_interval = std::chrono::milliseconds(1);
    return options;
  }

  Node& Start(const std::string& name, RendezvousOptions options) {
    Node& node = nodes_[name];
    node = Node();
    options.on_progress = [&node](const std::string& line) { node.lines.push_back(line); };
    node.rendezvous = *kElasticBackend.make(io_, options);
    Join(node);
    return node;
  }

  void Join(Node& node) {
    node.joined.reset();
    node.end.reset();
    node.reported = false;
    node.rendezvous->Join([&node](Result<Membership> joined) {
      node.joined = std::move(joined);
      if (!node.joined->has_value()) return;
      node.rendezvous->WatchRound([&node](RoundEnd end) { node.end = std::move(end); });
    });
  }

  void End(Node& node, RoundEnd::Kind kind, const std::string& message) {
    node.rendezvous->EndRound({.kind = kind, .message = message},
                              [&node] { node.reported = true; });
  }

  void Leave(Node& node) {
    node.rendezvous->Leave([&node](Status left) {
      node.left = std::move(left);
      node.rendezvous.reset();
    });
  }

  // The agent is gone from one instant to the next.
  void Kill(const std::string& name) { nodes_.erase(name); }

  bool AllRun() {
    return std::ranges::all_of(nodes_, [](auto& node) { return node.second.running(); });
  }

  // Expects that all nodes are in one round, as one world.
  void ExpectOneWorld() {
    std::vector<int> ranks;
    const Membership& first = nodes_.begin()->second.membership();
    for (auto& [name, node] : nodes_) {
      const Membership& membership = node.membership();
      ranks.push_back(membership.node_rank);
      EXPECT_EQ(membership.nnodes, static_cast<int>(nodes_.size()));
      EXPECT_EQ(membership.round, first.round);
      EXPECT_EQ(membership.restart_count, first.restart_count);
      EXPECT_EQ(membership.master_addr, first.master_addr);
      EXPECT_EQ(membership.master_port, first.master_port);
      EXPECT_EQ(node.rendezvous->worker_store() != nullptr, membership.node_rank == 0);
    }
    std::ranges::sort(ranks);
    for (size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(ranks[i], static_cast<int>(i));
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
  std::map<std::string, Node> nodes_;
};

}  // namespace ddprun::rendezvous

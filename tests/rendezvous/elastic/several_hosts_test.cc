// A job whose rendezvous has several hosts outlives the loss of any of them.
#include <set>

#include "tests/rendezvous/elastic/elastic_nodes.h"

namespace ddprun::rendezvous {
namespace {

using Kind = RoundEnd::Kind;

class SeveralHostsTest : public ElasticNodesTest {
 protected:
  SeveralHostsTest() {
    for (int i = 0; i < 3; ++i) hosts_.push_back({"127.0.0.1", UnusedPort()});
  }

  RendezvousOptions Hosts(int min_nodes, int max_nodes, int max_restarts = 0) {
    RendezvousOptions options = Options(min_nodes, max_nodes, max_restarts);
    options.hosts = hosts_;
    options.endpoint = hosts_.front();
    options.keep_alive = {.interval = std::chrono::milliseconds(100), .max_attempts = 4};
    options.stop_timeout = std::chrono::milliseconds(300);
    return options;
  }

  void StartThree(int min_nodes, int max_nodes) {
    for (const char* name : {"a", "b", "c"}) Start(name, Hosts(min_nodes, max_nodes));
    RunUntilAllRun();
  }

  // Returns whether all nodes run as one world. Expects that those that run now are in one.
  bool AllRunAsOne() {
    std::set<uint16_t> worlds;
    size_t running = 0;
    for (auto& [name, node] : nodes_) {
      if (!node.running() || node.end) continue;
      worlds.insert(node.membership().master_port);
      if (node.membership().nnodes == static_cast<int>(nodes_.size())) ++running;
    }
    EXPECT_LE(worlds.size(), 1U);
    return running == nodes_.size();
  }

  // Lets the nodes that have heard of an end join again, as agents do, until all run.
  void RunUntilAllRun() {
    RunUntil([&] {
      for (auto& [name, node] : nodes_) {
        if (node.end && node.end->kind != Kind::kJobFailed) Join(node);
      }
      return std::ranges::all_of(
          nodes_, [](auto& node) { return node.second.running() && !node.second.end; });
    });
  }

  // The leader is the host whose loss all others notice at once.
  std::string KillTheLeader() {
    for (const std::string name : {"a", "b", "c"}) {
      if (!nodes_.contains(name)) continue;
      Node gone = std::move(nodes_.at(name));
      nodes_.erase(name);
      gone.rendezvous.reset();
      const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      while (std::chrono::steady_clock::now() < later) {
        io_.run_one_for(std::chrono::milliseconds(10));
      }
      const auto& ends = nodes_;
      if (std::ranges::all_of(ends, [](auto& node) { return node.second.end.has_value(); })) {
        const RoundEnd& end = *ends.begin()->second.end;
        if (end.message.find("the rendezvous at") == 0) return name;
      }
      Start(name, Hosts(1, 3));
      RunUntilAllRun();
    }
    return "";
  }

  std::vector<HostPort> hosts_;
};

TEST_F(SeveralHostsTest, FormOneWorldAndLeaveWell) {
  StartThree(3, 3);
  ExpectOneWorld();
  for (auto& [name, node] : nodes_) Leave(node);
  RunUntil([&] {
    return std::ranges::all_of(nodes_, [](auto& node) { return node.second.left.has_value(); });
  });
  for (auto& [name, node] : nodes_) EXPECT_TRUE(node.left->ok());
}

TEST_F(SeveralHostsTest, RestartAsAJobWithOneHostDoes) {
  for (const char* name : {"a", "b", "c"}) Start(name, Hosts(3, 3, 1));
  RunUntil([&] { return AllRun(); });
  End(nodes_["b"], Kind::kRestart, "rank 1 failed");
  RunUntil([&] { return nodes_["a"].end && nodes_["c"].end && nodes_["b"].reported; });
  for (auto& [name, node] : nodes_) Join(node);
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
  EXPECT_EQ(nodes_["a"].membership().restart_count, 1);
}

TEST_F(SeveralHostsTest, AnElasticJobGoesOnWithoutItsLeader) {
  StartThree(1, 3);
  const int round = nodes_["a"].membership().round;
  const std::string leader = KillTheLeader();
  ASSERT_NE(leader, "");
  const auto begin = std::chrono::steady_clock::now();
  RunUntilAllRun();
  const auto waited = std::chrono::steady_clock::now() - begin;
  ExpectOneWorld();
  EXPECT_EQ(nodes_.size(), 2U);
  EXPECT_GT(nodes_.begin()->second.membership().round, round) << "rounds are counted on";
  EXPECT_GT(waited, std::chrono::milliseconds(300)) << "the lost node's workers may still run";
}

// Whatever message of a round is the last that happens before a node is lost, leader or not: the
// others are one world soon, and no two worlds run at the same time.
TEST_F(SeveralHostsTest, ANodeIsLostAtAnyMessage) {
  for (int last = 1; last <= 30; ++last) {
    for (const std::string killed : {"a", "b", "c"}) {
      SCOPED_TRACE(killed + " is killed after message " + std::to_string(last));
      int messages = 0;
      for (HostPort& host : hosts_) host.port = UnusedPort();
      for (const char* name : {"a", "b", "c"}) {
        RendezvousOptions options = Hosts(2, 3);
        options.keep_alive.interval = std::chrono::milliseconds(40);
        options.stop_timeout = std::chrono::milliseconds(40);
        options.on_debug = [&messages](const std::string&) { ++messages; };
        Start(name, options);
      }
      RunUntil([&] { return messages >= last || AllRunAsOne(); });
      Kill(killed);
      RunUntil([&] {
        for (auto& [name, node] : nodes_) {
          if (node.end) Join(node);
        }
        return AllRunAsOne();
      });
      if (HasFailure()) return;
      ExpectOneWorld();
      nodes_.clear();
    }
  }
}

TEST_F(SeveralHostsTest, AFixedJobWithoutRestartsEndsWithTheReason) {
  StartThree(3, 3);
  Kill("a");
  Kill("b");
  RunUntil([&] { return nodes_["c"].end.has_value(); });
  EXPECT_EQ(nodes_["c"].end->kind, Kind::kJobFailed);
  EXPECT_NE(nodes_["c"].end->message, "");
}

TEST_F(SeveralHostsTest, RefusesANodeWithAnotherList) {
  StartThree(1, 4);
  RendezvousOptions other = Hosts(1, 4);
  std::swap(other.hosts[0], other.hosts[2]);
  Node& node = Start("d", other);
  RunUntil([&] { return node.joined.has_value(); });
  ASSERT_FALSE(node.joined->has_value());
  EXPECT_EQ(node.joined->error().title, "NODES DISAGREE");
}

TEST_F(SeveralHostsTest, SaysThatNoLeaderIsFound) {
  RendezvousOptions alone = Hosts(1, 3);
  alone.rules.join_timeout = std::chrono::milliseconds(700);
  Node& node = Start("a", alone);
  RunUntil([&] { return node.joined.has_value(); });
  ASSERT_FALSE(node.joined->has_value());
  EXPECT_EQ(node.joined->error().title, "NO LEADER FOUND");
  EXPECT_NE(node.joined->error().what.find(ToString(hosts_[1])), std::string::npos);
}

}  // namespace
}  // namespace ddprun::rendezvous

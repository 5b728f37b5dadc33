#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_server.h"
#include "tests/rendezvous/slow_way.h"
#include "tests/rendezvous/static_nodes.h"

namespace ddprun::rendezvous {
namespace {

using testing::HasSubstr;
using Kind = RoundEnd::Kind;

class StaticRestartTest : public StaticNodesTest {
 protected:
  void End(int rank, Kind kind, const std::string& message, int exit_code = 1) {
    nodes_[rank].rendezvous->EndRound({.kind = kind, .message = message, .exit_code = exit_code},
                                      [this, rank] { nodes_[rank].reported = true; });
  }

  void JoinAllAgain() {
    for (auto& [rank, node] : nodes_) Join(node);
    RunUntil([&] { return AllJoined(); });
  }

  void ExpectRound(int round, int restart_count) {
    const Membership& first = **nodes_[0].joined;
    for (auto& [rank, node] : nodes_) {
      const Membership& membership = **node.joined;
      EXPECT_EQ(membership.round, round);
      EXPECT_EQ(membership.restart_count, restart_count) << "on node " << rank;
      EXPECT_EQ(membership.master_port, first.master_port);
      EXPECT_EQ(membership.node_rank, rank);
    }
  }
};

TEST_F(StaticRestartTest, CountsTheRestartsOfAllNodesAlike) {
  StartAll(3);
  ExpectRound(0, 0);
  for (int round = 1; round <= 4; ++round) {
    const int failing = round % 3;
    const uint16_t before = (*nodes_[0].joined)->master_port;
    End(failing, Kind::kRestart, "rank failed");
    RunUntil([&] {
      return nodes_[failing].reported && std::ranges::all_of(nodes_, [&](auto& node) {
               return node.first == failing || node.second.failure.has_value();
             });
    });
    EXPECT_FALSE(nodes_[failing].failure.has_value());
    for (auto& [rank, node] : nodes_) {
      if (node.failure) {
        EXPECT_EQ(node.failure->kind, Kind::kRestart);
      }
      node.reported = false;
    }
    JoinAllAgain();
    ExpectRound(round, round);
    EXPECT_NE((*nodes_[0].joined)->master_port, before);
    EXPECT_EQ(nodes_[0].rendezvous->worker_store()->Summary().keys, 0);
  }
}

TEST_F(StaticRestartTest, CountsTwoFailuresOfOneRoundOnce) {
  StartAll(3);
  for (const int rank : {0, 1, 2}) End(rank, Kind::kRestart, "rank " + std::to_string(rank));
  RunUntil(
      [&] { return std::ranges::all_of(nodes_, [](auto& node) { return node.second.reported; }); });
  JoinAllAgain();
  ExpectRound(1, 1);
}

TEST_F(StaticRestartTest, TheFirstEndOfTwoIsTheEndOnAllNodes) {
  StartAll(3);
  End(1, Kind::kRestart, "rank 1 failed");
  End(2, Kind::kJobFailed, "rank 2 failed for good");
  RunUntil([&] { return nodes_[1].reported && nodes_[2].reported && nodes_[0].failure; });
  const int first = nodes_[0].failure->node_rank;
  const int second = 3 - first;
  ASSERT_TRUE(nodes_[second].failure.has_value());
  EXPECT_EQ(nodes_[second].failure->kind, nodes_[0].failure->kind);
  EXPECT_FALSE(nodes_[first].failure.has_value());
}

TEST_F(StaticRestartTest, ANodeThatLeavesJoinsAgain) {
  StartAll(3);
  for (const int rank : {0, 1}) {
    nodes_[rank].rendezvous->Leave([this, rank](Status left) { nodes_[rank].left = left; });
  }
  io_.poll();
  End(2, Kind::kRestart, "rank 2 failed");
  RunUntil([&] { return nodes_[2].reported && nodes_[0].failure && nodes_[1].failure; });
  JoinAllAgain();
  ExpectRound(1, 1);
  for (auto& [rank, node] : nodes_) {
    EXPECT_FALSE(node.left.has_value());
    node.rendezvous->Leave([&node = node](const Status& left) {
      node.left = left;
      node.rendezvous.reset();
    });
  }
  RunUntil([&] {
    return std::ranges::all_of(nodes_, [](auto& node) { return node.second.left.has_value(); });
  });
  for (auto& [rank, node] : nodes_) EXPECT_TRUE(node.left->ok());
}

TEST_F(StaticRestartTest, OneNodeCountsItsOwn) {
  Start(Options(1, 0));
  RunUntil([&] { return AllJoined(); });
  End(0, Kind::kRestart, "rank 0 failed");
  RunUntil([&] { return nodes_[0].reported; });
  JoinAllAgain();
  ExpectRound(1, 1);
}

TEST_F(StaticRestartTest, ANodeThatGoesBetweenRoundsFailsTheJoinOfTheOthers) {
  StartAll(3);
  End(1, Kind::kRestart, "rank 1 failed");
  RunUntil([&] { return nodes_[1].reported && nodes_[0].failure && nodes_[2].failure; });
  nodes_.erase(2);
  for (auto& [rank, node] : nodes_) Join(node);
  RunUntil([&] { return nodes_[0].joined && nodes_[1].joined; });
  for (auto& [rank, node] : nodes_) {
    ASSERT_FALSE(node.joined->has_value());
    EXPECT_EQ(node.joined->error().page, "node-lost");
    EXPECT_THAT(node.joined->error().what, HasSubstr("node 2 is gone"));
  }
}

// Only the connection by which node 0 sees it.
TEST_F(StaticRestartTest, ANodeThatIsTakenForLostFailsAsTheOthersDo) {
  SlowWay way(io_, port_, [] { return std::chrono::milliseconds(0); });
  RendezvousOptions options = Options(3, 1);
  options.endpoint.port = way.port();
  Start(Options(3, 0));
  Start(options);
  Start(Options(3, 2));
  RunUntil([&] { return AllJoined(); });
  RunUntil([&] { return way.HasSent("ddprun/present/1"); });
  way.Break("ddprun/present/1");
  RunUntil([&] {
    return std::ranges::all_of(nodes_, [](auto& node) { return node.second.failure.has_value(); });
  });
  for (auto& [rank, node] : nodes_) {
    EXPECT_EQ(node.failure->kind, Kind::kJobFailed);
    EXPECT_EQ(node.failure->exit_code, 1);
    EXPECT_EQ(node.failure->node_rank, rank == 1 ? -1 : 1) << "on node " << rank;
  }
}

TEST_F(StaticRestartTest, AStrangerThatWaitsAsANodeDoesAndGoesIsNoLostNode) {
  SlowWay way(io_, port_, [] { return std::chrono::milliseconds(0); });
  RendezvousOptions options = Options(2, 1);
  options.endpoint.port = way.port();
  Start(Options(2, 0));
  Start(options);
  RunUntil([&] { return AllJoined() && way.HasSent("ddprun/present/1"); });
  const auto waits_for_presence = [&] {
    return std::ranges::count_if(
        nodes_[0].rendezvous->worker_store()->ParkedWaits(),
        [](const ParkedWait& wait) { return wait.keys.front() == "/none/ddprun/present/1"; });
  };
  RunUntil([&] { return waits_for_presence() == 1; });
  auto stranger = std::make_unique<StoreWatch>(io_, HostPort{"127.0.0.1", port_}, nullptr, Soon(),
                                               "/none/ddprun/present/1", [](const auto&) {});
  RunUntil([&] { return waits_for_presence() == 2; });
  stranger.reset();
  RunUntil([&] { return waits_for_presence() == 1; });
  End(1, Kind::kRestart, "rank 1 failed");
  RunUntil([&] { return nodes_[1].reported && nodes_[0].failure; });
  EXPECT_EQ(nodes_[0].failure->kind, Kind::kRestart);
}

TEST_F(StaticRestartTest, NextToTorchrunARestartIsTheEndOfTheJob) {
  Start(Options(3, 0));
  Start(Options(3, 1));
  // Sends the requests of torchrun's agent.
  StoreConnection torchrun(io_, {"127.0.0.1", port_}, nullptr, Soon());
  Request info;
  info.op = Op::kSet;
  info.key = "/none/torchelastic/role_info/2";
  info.value = R"({"role": "default", "rank": 2, "local_world_size": 1})";
  torchrun.Call(info, [](const auto&) {});
  RunUntil([&] { return AllJoined(); });
  End(1, Kind::kRestart, "rank 1 exited", 7);
  RunUntil([&] { return nodes_[1].reported && nodes_[0].failure; });
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(nodes_[rank].failure.has_value());
    EXPECT_EQ(nodes_[rank].failure->kind, Kind::kJobFailed);
    EXPECT_EQ(nodes_[rank].failure->node_rank, 1);
    EXPECT_THAT(nodes_[rank].failure->message, HasSubstr("rank 1 exited (no restart: a node"));
    EXPECT_EQ(nodes_[rank].failure->exit_code, 7);
  }
}

}  // namespace
}  // namespace ddprun::rendezvous

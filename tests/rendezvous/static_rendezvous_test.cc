#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/backends.h"
#include "rendezvous/store/store_server.h"
#include "rendezvous/store/tcp_store.h"
#include "tests/rendezvous/static_nodes.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

using StaticRendezvousTest = StaticNodesTest;

TEST_F(StaticRendezvousTest, OneNodeNeedsNoEndpoint) {
  RendezvousOptions options;
  options.local_world_size = 4;
  Node& node = Start(options);
  RunUntil([&] { return node.joined.has_value(); });
  const Membership& membership = **node.joined;
  EXPECT_EQ(membership.world_size, 4);
  EXPECT_EQ(membership.base_rank, 0);
  EXPECT_EQ(membership.master_addr, "127.0.0.1");
  EXPECT_NE(membership.master_port, 0);
  EXPECT_EQ(node.rendezvous->worker_store()->port(), membership.master_port);
}

TEST_F(StaticRendezvousTest, OneNodeGetsAFreshStoreInEveryRound) {
  Node& node = Start(Options(1, 0));
  RunUntil([&] { return node.joined.has_value(); });
  Request set;
  set.op = Op::kSet;
  const_cast<StoreServer*>(node.rendezvous->worker_store())->Call(set, [](const auto&) {});
  EXPECT_EQ(node.rendezvous->worker_store()->Summary().keys, 1);
  Join(node);
  RunUntil([&] { return node.joined.has_value(); });
  EXPECT_EQ((*node.joined)->round, 1);
  EXPECT_EQ((*node.joined)->master_port, port_);
  EXPECT_EQ(node.rendezvous->worker_store()->Summary().keys, 0);
}

TEST_F(StaticRendezvousTest, GivesRanksInTheOrderOfNodes) {
  for (const int rank : {2, 0, 1}) {
    RendezvousOptions options = Options(3, rank);
    options.local_world_size = rank + 1;
    Start(options);
  }
  RunUntil([&] { return AllJoined(); });
  const int base_ranks[] = {0, 1, 3};
  for (int rank = 0; rank < 3; ++rank) {
    const Membership& membership = **nodes_[rank].joined;
    EXPECT_EQ(membership.node_rank, rank);
    EXPECT_EQ(membership.base_rank, base_ranks[rank]);
    EXPECT_EQ(membership.world_size, 6);
    EXPECT_EQ(membership.master_port, port_);
  }
}

TEST_F(StaticRendezvousTest, WritesTorchrunsKeys) {
  StartAll(2);
  std::thread serving([&] { io_.run_for(std::chrono::seconds(20)); });
  {
    auto store = *TcpStore::Connect({"127.0.0.1", port_}, Soon());
    EXPECT_EQ(*store->Get("none/torchelastic/role_info/1", Soon()),
              R"({"local_world_size":1,"rank":1,"role":"default"})");
    EXPECT_EQ(*store->Get("none/torchelastic/assigned_ranks/1", Soon()), "[1,2,1,2]");
  }
  io_.stop();
  serving.join();
}

TEST_F(StaticRendezvousTest, SaysWhoIsMissing) {
  Node& host = Start(Options(4, 0));
  Node& other = Start(Options(4, 3));
  const std::string line = "2 of 4 nodes joined, missing: 1, 2";
  RunUntil([&] {
    return std::ranges::count(host.lines, line) == 1 && std::ranges::count(other.lines, line) == 1;
  });
}

TEST_F(StaticRendezvousTest, SaysThatNode0IsNotThereYet) {
  Node& node = Start(Options(2, 1));
  RunUntil([&] {
    return std::ranges::count(node.lines, "waiting for node 0 at 127.0.0.1:" +
                                              std::to_string(port_) + " (Connection refused)") == 1;
  });
  Start(Options(2, 0));
  RunUntil([&] { return AllJoined(); });
}

TEST_F(StaticRendezvousTest, GivesUpAtTheDeadlineAndNamesTheMissing) {
  RendezvousOptions options = Options(3, 0);
  options.rules.join_timeout = milliseconds(50);
  Node& host = Start(options);
  RunUntil([&] { return host.joined.has_value(); });
  ASSERT_FALSE(host.joined->has_value());
  const Error& error = host.joined->error();
  EXPECT_EQ(error.code, Code::kRendezvous);
  EXPECT_EQ(error.page, "nodes-missing");
  EXPECT_THAT(error.what, HasSubstr("1 of 3 nodes joined, missing: 1, 2"));
  EXPECT_THAT(error.what, HasSubstr("127.0.0.1:" + std::to_string(port_)));
  EXPECT_THAT(error.what, HasSubstr("this node"));
}

TEST_F(StaticRendezvousTest, GivesUpWhenNode0NeverComes) {
  RendezvousOptions options = Options(2, 1);
  options.rules.join_timeout = milliseconds(50);
  Node& node = Start(options);
  RunUntil([&] { return node.joined.has_value(); });
  ASSERT_FALSE(node.joined->has_value());
  EXPECT_EQ(node.joined->error().page, "cannot-reach-store");
  EXPECT_EQ(node.joined->error().code, Code::kRendezvous);
}

TEST_F(StaticRendezvousTest, FailsAtOnceWhenThePortIsTaken) {
  const auto other = *StoreServer::Listen(io_, asio::ip::address_v4::loopback(), port_);
  Node& host = Start(Options(2, 0));
  RunUntil([&] { return host.joined.has_value(); });
  EXPECT_EQ(host.joined->error().page, "port-taken");
}

TEST_F(StaticRendezvousTest, RefusesASecondNodeWithTheSameRank) {
  Start(Options(3, 0));
  Start(Options(3, 1));
  RunUntil([&] { return !nodes_[0].lines.empty() && nodes_[0].lines.back().starts_with("2 of"); });
  RendezvousOptions options = Options(3, 1);
  const auto twin = *kStaticBackend.make(io_, options);
  std::optional<Result<Membership>> joined;
  twin->Join([&](Result<Membership> result) { joined = std::move(result); });
  RunUntil([&] { return joined.has_value(); });
  ASSERT_FALSE(joined->has_value());
  EXPECT_EQ(joined->error().page, "node-rank-taken");
  EXPECT_THAT(joined->error().what, HasSubstr(HostName()));
}

TEST_F(StaticRendezvousTest, RefusesAnotherNumberOfNodes) {
  Start(Options(2, 0));
  Node& node = Start(Options(3, 1));
  RunUntil([&] { return node.joined.has_value(); });
  ASSERT_FALSE(node.joined->has_value());
  EXPECT_EQ(node.joined->error().page, "nnodes-differ");
}

TEST_F(StaticRendezvousTest, LetsANodeThatDiedWhileWaitingComeAgain) {
  Start(Options(3, 0));
  Start(Options(3, 1));
  const auto host_says = [&](const std::string& start) {
    return !nodes_[0].lines.empty() && nodes_[0].lines.back().starts_with(start);
  };
  // It is known to wait, too, by which its end is noticed: that is another connection.
  const auto waits = [&] {
    const StoreServer* const store = nodes_[0].rendezvous->worker_store();
    return store != nullptr && std::ranges::any_of(store->ParkedWaits(), [](const auto& wait) {
             return wait.keys.front().ends_with("present/1");
           });
  };
  RunUntil([&] { return host_says("2 of") && waits(); });
  nodes_.erase(1);
  RunUntil([&] { return host_says("1 of"); });
  Start(Options(3, 1));
  Start(Options(3, 2));
  RunUntil([&] { return AllJoined(); });
}

TEST_F(StaticRendezvousTest, TellsEveryNodeOfAFailure) {
  StartAll(3);
  nodes_[2].rendezvous->EndRound(
      {.kind = RoundEnd::Kind::kJobFailed, .message = "rank 2 exited with 7"},
      [&] { nodes_[2].reported = true; });
  RunUntil([&] { return nodes_[2].reported && nodes_[0].failure && nodes_[1].failure; });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(nodes_[rank].failure->node_rank, 2);
    EXPECT_EQ(nodes_[rank].failure->message, "rank 2 exited with 7");
  }
  EXPECT_FALSE(nodes_[2].failure.has_value());
}

TEST_F(StaticRendezvousTest, Node0GoesOnlyWhenTheOthersHaveHeard) {
  StartAll(3);
  Node& host = nodes_[0];
  host.rendezvous->EndRound({.kind = RoundEnd::Kind::kJobFailed, .message = "rank 0 exited with 7"},
                            [&] {
                              host.reported = true;
                              host.rendezvous.reset();
                            });
  RunUntil([&] { return host.reported; });
  RunUntil([&] { return nodes_[1].failure && nodes_[2].failure; });
  EXPECT_EQ(nodes_[1].failure->message, "rank 0 exited with 7");
  EXPECT_EQ(nodes_[2].failure->message, "rank 0 exited with 7");
}

TEST_F(StaticRendezvousTest, Node0HearsLastSoThatItsEndHidesNothing) {
  StartAll(4);
  nodes_[0].rendezvous->WatchRound([&](RoundEnd failure) {
    nodes_[0].failure = failure;
    nodes_[0].rendezvous.reset();
  });
  nodes_[3].rendezvous->EndRound(
      {.kind = RoundEnd::Kind::kJobFailed, .message = "rank 3 was killed"}, [] {});
  RunUntil([&] { return nodes_[0].failure && nodes_[1].failure && nodes_[2].failure; });
  for (const int rank : {0, 1, 2}) EXPECT_EQ(nodes_[rank].failure->message, "rank 3 was killed");
}

TEST_F(StaticRendezvousTest, TellsEveryNodeThatAnAgentIsGone) {
  StartAll(3);
  nodes_[1].rendezvous.reset();
  RunUntil([&] { return nodes_[0].failure && nodes_[2].failure; });
  EXPECT_EQ(nodes_[2].failure->node_rank, 1);
  EXPECT_THAT(nodes_[2].failure->message, HasSubstr("node 1 is gone"));
}

TEST_F(StaticRendezvousTest, DoesNotMissANodeWhoseWorkersEndedWell) {
  StartAll(3);
  for (const int rank : {0, 1}) nodes_[rank].rendezvous->Leave([](const Status&) {});
  RunUntil([&] { return nodes_[1].rendezvous->may_go(); });
  EXPECT_FALSE(nodes_[0].rendezvous->may_go());
  EXPECT_FALSE(nodes_[2].rendezvous->may_go());
  nodes_[1].rendezvous.reset();
  // Node 2 has not left, so its loss is the first that node 0 reports.
  nodes_[2].rendezvous.reset();
  RunUntil([&] { return nodes_[0].failure.has_value(); });
  EXPECT_EQ(nodes_[0].failure->node_rank, 2);
}

TEST_F(StaticRendezvousTest, TellsThatNode0IsGone) {
  StartAll(2);
  nodes_[0].rendezvous.reset();
  RunUntil([&] { return nodes_[1].failure.has_value(); });
  EXPECT_EQ(nodes_[1].failure->node_rank, -1);
  EXPECT_THAT(nodes_[1].failure->message, HasSubstr("127.0.0.1"));
}

TEST_F(StaticRendezvousTest, LeavesWhenTheLastNodeHasFinished) {
  StartAll(3);
  for (auto& [rank, node] : nodes_) {
    node.rendezvous->Leave([&node = node](Status status) {
      node.left = status;
      node.rendezvous.reset();
    });
    if (rank == 2) break;
    io_.poll();
    EXPECT_FALSE(node.left.has_value());
  }
  RunUntil([&] {
    return std::ranges::all_of(nodes_, [](auto& node) { return node.second.left.has_value(); });
  });
  for (auto& [rank, node] : nodes_) {
    EXPECT_TRUE(node.left->ok());
    EXPECT_FALSE(node.failure.has_value());
  }
}

TEST_F(StaticRendezvousTest, HearsOfAFailureWhileLeaving) {
  StartAll(2);
  nodes_[0].rendezvous->Leave([&](Status status) { nodes_[0].left = status; });
  nodes_[1].rendezvous->EndRound(
      {.kind = RoundEnd::Kind::kJobFailed, .message = "rank 1 was killed"}, [] {});
  RunUntil([&] { return nodes_[0].failure.has_value(); });
  EXPECT_FALSE(nodes_[0].left.has_value());
}

TEST_F(StaticRendezvousTest, JoinsAgainAfterAFailureWithAFreshStore) {
  StartAll(3);
  nodes_[1].rendezvous->EndRound({.kind = RoundEnd::Kind::kJobFailed, .message = "rank 1 failed"},
                                 [&] { nodes_[1].reported = true; });
  RunUntil([&] { return nodes_[1].reported && nodes_[0].failure && nodes_[2].failure; });
  for (auto& [rank, node] : nodes_) Join(node);
  RunUntil([&] { return AllJoined(); });
  const uint16_t fresh = (*nodes_[0].joined)->master_port;
  EXPECT_NE(fresh, port_);
  for (auto& [rank, node] : nodes_) {
    EXPECT_EQ((*node.joined)->round, 1);
    EXPECT_EQ((*node.joined)->master_port, fresh);
    EXPECT_EQ((*node.joined)->base_rank, rank);
  }
  EXPECT_EQ(nodes_[0].rendezvous->worker_store()->Summary().keys, 0);
  nodes_[2].rendezvous->EndRound({.kind = RoundEnd::Kind::kJobFailed, .message = "rank 2 failed"},
                                 [] {});
  RunUntil([&] { return nodes_[0].failure && nodes_[1].failure; });
  EXPECT_EQ(nodes_[0].failure->message, "rank 2 failed");
}

TEST_F(StaticRendezvousTest, CanBeDestroyedAtAnyTime) {
  for (int turns = 0; turns < 60; ++turns) {
    Start(Options(2, 0));
    Start(Options(2, 1));
    for (int i = 0; i < turns; ++i) io_.poll_one();
    nodes_.clear();
    io_.restart();
    io_.run();
    io_.restart();
  }
}

TEST(StaticOptionsCheck, RefusesContradictions) {
  asio::io_context io;
  const auto page = [&](int nnodes, int node_rank, HostPort endpoint) {
    RendezvousOptions options;
    options.rules.max_nodes = nnodes;
    options.node_rank = node_rank;
    options.endpoint = std::move(endpoint);
    const auto created = kStaticBackend.make(io, options);
    return created.has_value() ? "" : created.error().page;
  };
  EXPECT_EQ(page(0, 0, {}), "nnodes");
  EXPECT_EQ(page(2, 2, {"node0", 1}), "node-rank");
  EXPECT_EQ(page(2, -1, {"node0", 1}), "node-rank");
  EXPECT_EQ(page(2, 1, {"node0", 0}), "endpoint");
  EXPECT_EQ(page(2, 1, {"", 1}), "endpoint");
  EXPECT_EQ(page(1, 0, {}), "");
}

}  // namespace
}  // namespace ddprun::rendezvous

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include "rendezvous/backends.h"
#include "rendezvous/elastic/coordinator.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_server.h"
#include "tests/rendezvous/elastic/elastic_nodes.h"
#include "tests/rendezvous/foreign_server.h"

namespace ddprun::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Kind = RoundEnd::Kind;

class ElasticRendezvousTest : public ElasticNodesTest {
 protected:
  // As `ddprun store` does.
  void HostApart() {
    server_ = *StoreServer::Listen(io_, asio::ip::address_v4::loopback(), port_);
    coordinator_ = std::make_unique<Coordinator>(io_, CoordinatorOptions());
    coordinator_->ServeOn(*server_);
  }

  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(ElasticRendezvousTest, TheFirstNodeOfAMachineHostsAndTheOthersJoinIt) {
  for (const char* name : {"a", "b", "c"}) Start(name, Options(3, 3));
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
  EXPECT_NE(nodes_["a"].membership().master_port, port_) << "workers get a store of their own";
  EXPECT_EQ(nodes_["a"].membership().master_addr, "127.0.0.1");
}

TEST_F(ElasticRendezvousTest, SaysWhoIsThereWhileItWaits) {
  Node& node = Start("a", Options(2, 4));
  RunUntil([&] { return std::ranges::count(node.lines, "1 of 2 to 4 nodes joined") == 1; });
}

TEST_F(ElasticRendezvousTest, SaysThatNobodyHostsAndGivesUp) {
  RendezvousOptions options = Options(2, 2);
  options.is_host = false;
  options.rules.join_timeout = std::chrono::milliseconds(50);
  Node& node = Start("a", options);
  RunUntil([&] { return node.joined.has_value(); });
  ASSERT_FALSE(node.joined->has_value());
  EXPECT_EQ(node.joined->error().page, "no-rendezvous");
  EXPECT_EQ(node.joined->error().code, Code::kRendezvous);
  EXPECT_THAT(node.joined->error().what, HasSubstr("127.0.0.1:" + std::to_string(port_)));
  EXPECT_THAT(node.joined->error().what, HasSubstr("127.0.0.1: Connection refused"));
  EXPECT_THAT(node.lines, Contains(HasSubstr("waiting for the rendezvous at 127.0.0.1:")));
}

TEST_F(ElasticRendezvousTest, WaitsForAHostThatComesLater) {
  RendezvousOptions options = Options(2, 2);
  options.is_host = false;
  Node& early = Start("a", options);
  RunUntil([&] { return !early.lines.empty(); });
  Start("b", Options(2, 2));
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
}

TEST_F(ElasticRendezvousTest, AWaitingNodeHostsWhenTheHostGoesBeforeTheFirstRound) {
  Start("a", Options(3, 3));
  Node& second = Start("b", Options(3, 3));
  RunUntil([&] { return std::ranges::count(second.lines, "2 of 3 nodes joined") == 1; });
  Kill("a");
  Start("c", Options(3, 3));
  Start("d", Options(3, 3));
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
}

TEST_F(ElasticRendezvousTest, AllNodesRestartWithAFreshStoreAndTheSameCount) {
  HostApart();
  for (const char* name : {"a", "b", "c"}) Start(name, Options(3, 3, 9));
  RunUntil([&] { return AllRun(); });
  for (int restarts = 1; restarts <= 3; ++restarts) {
    const uint16_t port = nodes_["a"].membership().master_port;
    End(nodes_["b"], Kind::kRestart, "rank 1 exited with 7");
    RunUntil([&] { return nodes_["b"].reported && nodes_["a"].end && nodes_["c"].end; });
    EXPECT_FALSE(nodes_["b"].end.has_value());
    EXPECT_EQ(nodes_["a"].end->kind, Kind::kRestart);
    EXPECT_EQ(nodes_["a"].end->message, "rank 1 exited with 7");
    for (const char* name : {"c", "a", "b"}) Join(nodes_[name]);
    RunUntil([&] { return AllRun(); });
    ExpectOneWorld();
    EXPECT_EQ(nodes_["c"].membership().restart_count, restarts);
    EXPECT_NE(nodes_["c"].membership().master_port, port);
  }
}

TEST_F(ElasticRendezvousTest, TwoEndsOfOneRoundAreOne) {
  for (const char* name : {"a", "b"}) Start(name, Options(2, 2, 1));
  RunUntil([&] { return AllRun(); });
  End(nodes_["a"], Kind::kRestart, "a failed");
  End(nodes_["b"], Kind::kRestart, "b failed");
  RunUntil([&] { return nodes_["a"].reported && nodes_["b"].reported; });
  EXPECT_NE(nodes_["a"].end.has_value(), nodes_["b"].end.has_value());
  for (auto& [name, node] : nodes_) Join(node);
  RunUntil([&] { return AllRun(); });
  EXPECT_EQ(nodes_["b"].membership().restart_count, 1);
}

TEST_F(ElasticRendezvousTest, ANodeThatComesLaterMakesOneNewWorld) {
  HostApart();
  for (const std::optional<int> wish : {std::optional<int>(), std::optional<int>(0)}) {
    nodes_.clear();
    RunUntil([&] { return coordinator_->num_jobs() == 0; });
    Node& first = Start("m", Options(1, 2));
    RunUntil([&] { return first.running(); });
    EXPECT_EQ(first.membership().nnodes, 1);
    RendezvousOptions options = Options(1, 2);
    options.node_rank = wish;
    Start("n", options);
    RunUntil([&] { return first.end.has_value(); });
    EXPECT_EQ(first.end->kind, Kind::kRegroup);
    Join(first);
    RunUntil([&] { return AllRun(); });
    ExpectOneWorld();
    EXPECT_EQ(first.membership().node_rank, 0);
    EXPECT_EQ(first.membership().restart_count, 0);
  }
}

TEST_F(ElasticRendezvousTest, ANodeThatDiesIsReplaced) {
  HostApart();
  for (const char* name : {"a", "b"}) Start(name, Options(2, 2, 1));
  RunUntil([&] { return AllRun(); });
  const bool first_dies = nodes_["a"].membership().node_rank == 0;
  Kill(first_dies ? "a" : "b");
  Node& survivor = nodes_.begin()->second;
  RunUntil([&] { return survivor.end.has_value(); });
  EXPECT_EQ(survivor.end->kind, Kind::kRestart);
  EXPECT_THAT(survivor.end->message, HasSubstr("is gone: its connection was closed"));
  Join(survivor);
  Start("c", Options(2, 2, 1));
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
  EXPECT_EQ(nodes_["c"].membership().node_rank, 0) << "the replacement takes the place";
}

TEST_F(ElasticRendezvousTest, AnElasticJobGoesOnWithoutTheNodeOfRank0) {
  HostApart();
  for (const char* name : {"a", "b", "c"}) Start(name, Options(1, 3));
  RunUntil([&] { return AllRun(); });
  const auto master = std::ranges::find_if(
      nodes_, [](auto& node) { return node.second.membership().node_rank == 0; });
  Kill(master->first);
  RunUntil([&] {
    return std::ranges::all_of(nodes_, [](auto& node) { return node.second.end.has_value(); });
  });
  for (auto& [name, node] : nodes_) Join(node);
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
}

TEST_F(ElasticRendezvousTest, ASilentNodeIsTakenForDead) {
  LoopThread frozen;
  HostApart();
  Start("a", Options(1, 2));
  RendezvousOptions options = Options(1, 2);
  options.keep_alive = {std::chrono::milliseconds(20), 3};
  bool joined = false;
  std::shared_ptr<Rendezvous> silent;
  frozen.Do([&] {
    silent = *kElasticBackend.make(frozen.io(), options);
    silent->Join([&](const Result<Membership>&) { joined = true; });
  });
  const auto with_both = [&] {
    Node& node = nodes_["a"];
    if (node.end) Join(node);
    return node.running() && node.membership().nnodes == 2;
  };
  RunUntil(with_both);
  std::promise<void> thaw;
  asio::post(frozen.io(), [&] { thaw.get_future().wait(); });
  RunUntil([&] { return nodes_["a"].end.has_value(); });
  EXPECT_EQ(nodes_["a"].end->kind, Kind::kRegroup);
  EXPECT_THAT(nodes_["a"].end->message, HasSubstr("nothing was heard from it for 60 ms"));
  thaw.set_value();
  frozen.Do([&] { silent.reset(); });
  EXPECT_TRUE(joined);
}

TEST_F(ElasticRendezvousTest, AFailureForGoodReachesTheHostLast) {
  for (const char* name : {"a", "b", "c"}) Start(name, Options(3, 3));
  RunUntil([&] { return AllRun(); });
  for (auto& [name, node] : nodes_) {
    node.rendezvous->WatchRound([&node = node](RoundEnd end) {
      node.end = std::move(end);
      node.rendezvous.reset();  // as an agent without living workers
    });
  }
  End(nodes_["c"], Kind::kJobFailed, "rank 2 was killed");
  RunUntil([&] { return nodes_["a"].end && nodes_["b"].end && nodes_["c"].reported; });
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(nodes_[name].end->kind, Kind::kJobFailed);
    EXPECT_EQ(nodes_[name].end->message, "rank 2 was killed") << name;
  }
}

TEST_F(ElasticRendezvousTest, AFailureReachesThoseWhoLeave) {
  for (const char* name : {"a", "b"}) Start(name, Options(2, 2));
  RunUntil([&] { return AllRun(); });
  Leave(nodes_["a"]);
  End(nodes_["b"], Kind::kJobFailed, "rank 1 failed");
  RunUntil([&] { return nodes_["a"].end.has_value(); });
  EXPECT_FALSE(nodes_["a"].left.has_value());
}

TEST_F(ElasticRendezvousTest, AllLeaveWellAndLateComersLearnIt) {
  HostApart();
  for (const char* name : {"a", "b"}) Start(name, Options(2, 2));
  RunUntil([&] { return AllRun(); });
  for (auto& [name, node] : nodes_) Leave(node);
  RunUntil([&] { return nodes_["a"].left && nodes_["b"].left; });
  EXPECT_TRUE(nodes_["a"].left->ok());
  EXPECT_TRUE(nodes_["b"].left->ok());
  Node& late = Start("c", Options(2, 2));
  RunUntil([&] { return late.joined.has_value(); });
  ASSERT_FALSE(late.joined->has_value());
  EXPECT_EQ(late.joined->error().page, "job-has-ended");
}

TEST_F(ElasticRendezvousTest, AJobThatIsPutBackIntoTheQueueDoesNotMeetItsOwnEnd) {
  HostApart();
  Start("a", Options(1, 1));
  RunUntil([&] { return AllRun(); });
  End(nodes_["a"], Kind::kJobFailed, "rank 0 was stopped");
  RunUntil([&] { return nodes_["a"].reported; });
  RendezvousOptions options = Options(1, 1);
  options.requeues = 1;
  Start("a", options);
  RunUntil([&] { return nodes_["a"].joined.has_value(); });
  EXPECT_TRUE(nodes_["a"].running());
}

TEST_F(ElasticRendezvousTest, TheHostLeavesAfterTheOthersHaveHeard) {
  for (const char* name : {"a", "b", "c"}) Start(name, Options(3, 3));
  RunUntil([&] { return AllRun(); });
  for (auto& [name, node] : nodes_) Leave(node);
  RunUntil([&] { return nodes_["a"].left && nodes_["b"].left && nodes_["c"].left; });
  for (auto& [name, node] : nodes_) {
    EXPECT_TRUE(node.left->ok()) << name;
    EXPECT_FALSE(node.end.has_value()) << name;
  }
}

TEST_F(ElasticRendezvousTest, WithoutItsHostTheJobHasFailedAtOnce) {
  for (const char* name : {"a", "b"}) Start(name, Options(1, 2));
  RunUntil([&] { return AllRun(); });
  Kill("a");
  RunUntil([&] { return nodes_["b"].end.has_value(); });
  EXPECT_EQ(nodes_["b"].end->kind, Kind::kJobFailed);
  EXPECT_THAT(nodes_["b"].end->message, HasSubstr("the rendezvous at 127.0.0.1:"));
  Join(nodes_["b"]);
  RunUntil([&] { return nodes_["b"].joined.has_value(); });
  EXPECT_EQ(nodes_["b"].joined->error().page, "rendezvous-lost");
}

TEST_F(ElasticRendezvousTest, WhenTheHostIsStoppedTheOthersHearWhy) {
  for (const char* name : {"a", "b"}) Start(name, Options(1, 2));
  RunUntil([&] { return AllRun(); });
  nodes_["a"].rendezvous->Withdraw({.message = "node 0 was stopped by SIGTERM"}, [&] {
    nodes_["a"].reported = true;
    nodes_["a"].rendezvous.reset();
  });
  RunUntil([&] { return nodes_["a"].reported && nodes_["b"].end; });
  EXPECT_EQ(nodes_["b"].end->kind, Kind::kJobFailed);
  EXPECT_EQ(nodes_["b"].end->message, "node 0 was stopped by SIGTERM");
}

TEST_F(ElasticRendezvousTest, ANodeThatIsStoppedIsNotMissedInAnElasticJob) {
  for (const char* name : {"a", "b"}) Start(name, Options(1, 2));
  RunUntil([&] { return AllRun(); });
  nodes_["b"].rendezvous->Withdraw({.message = "stopped"}, [&] { nodes_["b"].reported = true; });
  RunUntil([&] { return nodes_["b"].reported && nodes_["a"].end; });
  EXPECT_EQ(nodes_["a"].end->kind, Kind::kRegroup);
  Kill("b");
  Join(nodes_["a"]);
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
}

TEST_F(ElasticRendezvousTest, RefusesOtherNumbersOfNodes) {
  Start("a", Options(2, 2));
  Node& other = Start("b", Options(2, 3));
  RunUntil([&] { return other.joined.has_value(); });
  ASSERT_FALSE(other.joined->has_value());
  EXPECT_EQ(other.joined->error().page, "nnodes-differ");
  EXPECT_THAT(other.joined->error().what, HasSubstr("--nnodes is 2 to 3 here and 2 on"));
}

TEST_F(ElasticRendezvousTest, ServesJobsWithOtherIdsApart) {
  HostApart();
  RendezvousOptions other = Options(1, 1);
  other.run_id = "other";
  Node& a = Start("a", Options(2, 2));
  Node& b = Start("b", other);
  RunUntil([&] { return b.running(); });
  EXPECT_FALSE(a.joined.has_value());
  EXPECT_EQ(coordinator_->num_jobs(), 2);
}

TEST_F(ElasticRendezvousTest, SaysWhoWaitsUnderAnotherName) {
  HostApart();
  RendezvousOptions other = Options(2, 2);
  other.run_id = "other";
  Node& a = Start("a", Options(2, 2));
  Node& b = Start("b", other);
  RunUntil([&] {
    return std::ranges::count(a.lines,
                              "1 of 2 nodes joined; with another --rdzv_id wait here: "
                              "\"other\" (nodes: 1)") == 1 &&
           !b.lines.empty() && b.lines.back().ends_with("\"none\" (nodes: 1)");
  });
  Kill("b");
  RunUntil([&] { return a.lines.back() == "1 of 2 nodes joined"; });
}

// The first spare finds a fault in itself when it is to be taken, so the second one is.
TEST_F(ElasticRendezvousTest, AFitSpareTakesThePlaceOfALostNode) {
  RendezvousOptions options = Options(2, 2);
  options.rules.spares = 2;
  bool fit = true;
  options.find_fault = [&] { return fit ? "" : "its disk is full"; };
  for (const char* name : {"a", "b"}) Start(name, options);
  RunUntil([&] { return AllRun(); });
  Node& unfit = Start("c", options);
  RunUntil([&] { return testing::Value(unfit.lines, Contains(HasSubstr("as a spare"))); });
  options.find_fault = [] { return std::string(); };
  Node& spare = Start("d", options);
  RunUntil([&] { return testing::Value(spare.lines, Contains(HasSubstr("as a spare"))); });
  fit = false;
  Kill("b");
  RunUntil([&] { return nodes_["a"].end.has_value(); });
  EXPECT_EQ(nodes_["a"].end->kind, Kind::kRegroup);
  Join(nodes_["a"]);
  RunUntil([&] { return spare.running() && nodes_["a"].running(); });
  EXPECT_EQ(spare.membership().node_rank, 1);
  ASSERT_TRUE(unfit.joined.has_value());
  EXPECT_EQ(unfit.joined->error().code, Code::kNotNeeded);
  EXPECT_THAT(unfit.lines, Contains(HasSubstr("does not take part in the job: its disk is full")));
}

// An agent ends with its own job, so another job must not depend on it.
TEST_F(ElasticRendezvousTest, RefusesNodesOfAnotherJobAtOnce) {
  RendezvousOptions other = Options(2, 2);
  other.run_id = "other";
  Start("a", Options(2, 2));
  Node& b = Start("b", other);
  RunUntil([&] { return b.joined.has_value(); });
  ASSERT_FALSE(b.joined->has_value());
  EXPECT_EQ(b.joined->error().title, "ANOTHER JOB MEETS THERE");
  EXPECT_THAT(b.joined->error().what, HasSubstr("belongs to the job \"none\", and this node's"));
  Start("c", Options(2, 2));
  RunUntil([&] { return nodes_["a"].running() && nodes_["c"].running(); });
}

// Two jobs and another program want the same port: each job takes the next free one, and the nodes
// of a job find each other there.
TEST_F(ElasticRendezvousTest, TakesTheNextPortIfAnotherHasIt) {
  const ForeignServer ssh(io_, port_, "SSH-2.0-OpenSSH_9.6\r\n");
  const uint16_t second = UnusedPort();
  const uint16_t third = UnusedPort();
  for (const char* job : {"x", "y"}) {
    RendezvousOptions options = Options(2, 2);
    options.run_id = job;
    options.other_ports = {second, third};
    options.is_host = true;
    Start(job + std::string("1"), options);
    options.is_host = false;
    Start(job + std::string("2"), options);
  }
  RunUntil([&] { return AllRun(); });
  for (const char* name : {"x1", "x2", "y1", "y2"}) EXPECT_EQ(nodes_[name].membership().nnodes, 2);
  EXPECT_NE(nodes_["x1"].membership().master_port, nodes_["y1"].membership().master_port);
}

TEST_F(ElasticRendezvousTest, AnotherProgramAtTheEndpointIsFoundAtOnce) {
  const ForeignServer ssh(io_, port_, "SSH-2.0-OpenSSH_9.6\r\n");
  Node& node = Start("a", Options(2, 2));
  RunUntil([&] { return node.joined.has_value(); });
  EXPECT_EQ(node.joined->error().page, "no-rendezvous");
  EXPECT_THAT(node.joined->error().what, HasSubstr("it says \"SSH-2.0-OpenSSH_9.6\""));
}

TEST_F(ElasticRendezvousTest, TakesTheAddressThatTheUserGives) {
  RendezvousOptions options = Options(2, 2);
  options.local_addr = "127.0.0.2";
  Start("a", options);
  options.local_addr = "127.0.0.3";
  Start("b", options);
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
  const Node& master = nodes_["a"].membership().node_rank == 0 ? nodes_["a"] : nodes_["b"];
  EXPECT_EQ(master.membership().master_addr, &master == &nodes_["a"] ? "127.0.0.2" : "127.0.0.3");
}

TEST_F(ElasticRendezvousTest, SaysWhichNodeCannotReachTheStore) {
  RendezvousOptions options = Options(2, 2);
  options.local_addr = "no-such-host.invalid";
  options.reach_timeout = std::chrono::milliseconds(50);
  Start("a", options);
  Start("b", options);
  RunUntil([&] { return nodes_["a"].joined && nodes_["b"].joined; });
  for (auto& [name, node] : nodes_) {
    ASSERT_FALSE(node.joined->has_value());
    EXPECT_EQ(node.joined->error().page, "nodes-cannot-reach");
    EXPECT_THAT(node.joined->error().what, HasSubstr("no-such-host.invalid"));
  }
}

TEST_F(ElasticRendezvousTest, ANewcomerThatReachesNothingDoesNotEndARunningJob) {
  HostApart();
  std::vector<Node*> old;
  for (const char* name : {"a", "b"}) old.push_back(&Start(name, Options(1, 3)));
  const auto both_run = [&] {
    for (Node* node : old) {
      if (node->end) Join(*node);
    }
    return std::ranges::all_of(
        old, [](Node* node) { return node->running() && node->membership().nnodes == 2; });
  };
  RunUntil(both_run);
  RendezvousOptions options = Options(1, 3);
  options.reach_timeout = std::chrono::milliseconds(0);
  Node& newcomer = Start("c", options);
  RunUntil([&] {
    both_run();
    return newcomer.joined.has_value();
  });
  ASSERT_TRUE(newcomer.joined && !newcomer.joined->has_value());
  EXPECT_EQ(newcomer.joined->error().page, "nodes-cannot-reach");
  Kill("c");
  RunUntil(both_run);
  ExpectOneWorld();
}

// An address of this machine by which others reach it; none where it has no network.
std::optional<asio::ip::address> OuterAddress() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    const asio::ip::address_v4 address(ntohl(v4->sin_addr.s_addr));
    if (!address.is_loopback()) return address;
  }
  return std::nullopt;
}

TEST_F(ElasticRendezvousTest, TheRoundsStoreListensOnlyWhereWorkersLookForIt) {
  const auto outer = OuterAddress();
  if (!outer) GTEST_SKIP() << "this machine has no network";
  RendezvousOptions options = Options(2, 2);
  options.endpoint.host = outer->to_string();
  Start("a", options);
  Start("b", options);
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
  const Membership& membership = nodes_["a"].membership();
  EXPECT_EQ(membership.master_addr, outer->to_string());
  const HostPort store{membership.master_addr, membership.master_port};
  EXPECT_TRUE(Stream::Connect(store, Soon()).has_value());
  const auto at_loopback = Stream::Connect({"127.0.0.1", membership.master_port},
                                           DeadlineAfter(std::chrono::milliseconds(1)));
  EXPECT_FALSE(at_loopback.has_value());
  const auto warnings = [](const Node& node) {
    return std::ranges::count_if(
        node.lines, [](const std::string& line) { return line.starts_with("warning: whoever"); });
  };
  EXPECT_EQ(warnings(nodes_["a"]), 1);
}

TEST_F(ElasticRendezvousTest, WorksOverIpv6) {
  RendezvousOptions options = Options(2, 2);
  options.endpoint.host = "::1";
  Start("a", options);
  Start("b", options);
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
  EXPECT_EQ(nodes_["a"].membership().master_addr, "::1");
}

TEST_F(ElasticRendezvousTest, ATorchrunNodeIsRefusedInOneLine) {
  RendezvousOptions options = Options(2, 2);
  Node& host = Start("a", options);
  StoreConnection torchrun(io_, {"127.0.0.1", port_}, nullptr, Soon());
  Request key;
  key.op = Op::kCompareSet;
  key.key = "/torch.rendezvous.none";
  bool closed = false;
  torchrun.Call(key, [&](const Result<Reply>& reply) { closed = !reply.has_value(); });
  RunUntil([&] { return closed && !host.lines.empty(); });
  EXPECT_THAT(host.lines, Contains(HasSubstr("mixed launchers")));
}

TEST_F(ElasticRendezvousTest, ATorchStoreIsNoRendezvous) {
  server_ = *StoreServer::Listen(io_, asio::ip::address_v4::loopback(), port_);
  Node& node = Start("a", Options(2, 2));
  RunUntil([&] { return node.joined.has_value(); });
  EXPECT_EQ(node.joined->error().page, "no-rendezvous");
  EXPECT_THAT(node.joined->error().what, HasSubstr("does not answer as ddprun does"));
}

TEST_F(ElasticRendezvousTest, CanBeDestroyedAtAnyTime) {
  for (int turns = 0; turns < 150; ++turns) {
    Start("a", Options(2, 2));
    Start("b", Options(2, 2));
    for (int i = 0; i < turns; ++i) io_.poll_one();
    nodes_.clear();
    io_.restart();
    io_.poll();
    io_.restart();
  }
}

}  // namespace
}  // namespace ddprun::rendezvous

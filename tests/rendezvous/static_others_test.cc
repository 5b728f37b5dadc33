// Nodes that find somebody else at their port than they look for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/store/store_connection.h"
#include "tests/rendezvous/foreign_server.h"
#include "tests/rendezvous/slow_way.h"
#include "tests/rendezvous/static_nodes.h"

namespace ddprun::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kWhoCame =
    "1 of 2 nodes joined, missing: 1; node 1 came with --rdzv_id=\"y\", this job has \"x\"";

class StaticOthersTest : public StaticNodesTest {
 protected:
  // Returns the error of a node that does not belong to the test's job.
  Error ErrorOfJoin(const RendezvousOptions& options) {
    const auto stranger = *kStaticBackend.make(io_, options);
    std::optional<Result<Membership>> joined;
    stranger->Join([&](Result<Membership> result) { joined = std::move(result); });
    RunUntil([&] { return joined.has_value(); });
    return joined && !joined->has_value() ? joined->error() : Error();
  }
};

TEST_F(StaticOthersTest, ANodeOfAnotherJobLearnsItAtOnceAndNode0SaysWhoCame) {
  RendezvousOptions options = Options(2, 0);
  options.run_id = "x";
  Node& host = Start(options);
  options = Options(2, 1);
  options.run_id = "y";
  const Error error = ErrorOfJoin(options);
  EXPECT_EQ(error.page, "rdzv-ids-differ");
  EXPECT_THAT(error.what, HasSubstr("--rdzv_id is \"y\" here and \"x\" on node 0, " + HostName()));
  RunUntil([&] { return std::ranges::count(host.lines, kWhoCame) == 1; });
  options.run_id = "x";
  Start(options);
  RunUntil([&] { return AllJoined(); });
}

TEST_F(StaticOthersTest, ATorchrunNodeOfAnotherJobIsNamedByNode0) {
  RendezvousOptions options = Options(2, 0);
  options.run_id = "x";
  options.rules.join_timeout = std::chrono::seconds(1);
  Node& host = Start(options);
  StoreConnection torchrun(io_, {"127.0.0.1", port_}, nullptr, Soon());
  Request info;
  info.op = Op::kSet;
  info.key = "/y/torchelastic/role_info/1";
  torchrun.Call(info, [](const auto&) {});
  RunUntil([&] { return host.joined.has_value(); });
  EXPECT_THAT(host.lines, Contains(std::string(kWhoCame)));
  EXPECT_THAT(host.joined->error().what, HasSubstr("node 1 came with --rdzv_id=\"y\""));
}

TEST_F(StaticOthersTest, ASecondNode0HearsOfTheFirst) {
  Start(Options(2, 0));
  RunUntil([&] { return !nodes_[0].lines.empty(); });
  const Error error = ErrorOfJoin(Options(2, 0));
  EXPECT_EQ(error.page, "node-rank-taken");
  EXPECT_THAT(error.what, HasSubstr("Node rank 0 has already joined, from " + HostName()));
}

TEST_F(StaticOthersTest, APortThatAnotherJobHasIsSaidToBeThat) {
  Start(Options(2, 0));
  RunUntil([&] { return !nodes_[0].lines.empty(); });
  RendezvousOptions options = Options(2, 0);
  options.run_id = "y";
  const Error error = ErrorOfJoin(options);
  EXPECT_EQ(error.page, "port-taken");
  EXPECT_THAT(error.what, HasSubstr("node 0 of the job --rdzv_id=\"none\", on " + HostName()));
}

// Longer than lines about the progress are apart.
TEST_F(StaticOthersTest, AProgramThatSaysNothingAtThePortIsWaitedFor) {
  const ForeignServer mute(io_, port_, "");
  EXPECT_EQ(ErrorOfJoin(Options(2, 0)).page, "port-taken");
}

TEST_F(StaticOthersTest, AnotherProgramAtThePortIsFoundAtOnce) {
  const ForeignServer ssh(io_, port_, "SSH-2.0-OpenSSH_9.6\r\n");
  const Error error = ErrorOfJoin(Options(2, 1));
  EXPECT_EQ(error.page, "no-store");
  EXPECT_THAT(error.what, HasSubstr("is no TCPStore: it says \"SSH-2.0-OpenSSH_9.6\"."));
  EXPECT_EQ(ErrorOfJoin(Options(2, 0)).page, "port-taken");
}

// Node 0's store could not bear that every node looks at the keys of all others.
TEST_F(StaticOthersTest, ANodeThatWaitsAsksNode0AloneWhoIsThere) {
  SlowWay way(io_, port_, [] { return std::chrono::milliseconds(0); });
  constexpr int kNodes = 50;
  RendezvousOptions options = Options(kNodes, 1);
  options.endpoint.port = way.port();
  Start(Options(kNodes, 0));
  const Node& waiting = Start(options);
  RunUntil([&] {
    return std::ranges::any_of(waiting.lines, [](const std::string& line) {
      return line.starts_with("2 of 50 nodes joined");
    });
  });
  const size_t before = way.TimesSent("ddprun/joined");
  RunUntil([&] { return way.TimesSent("ddprun/joined") > before + 10; });
  EXPECT_EQ(way.TimesSent("role_info/"), 1) << "its own";
}

}  // namespace
}  // namespace ddprun::rendezvous

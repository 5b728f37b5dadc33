#include "rendezvous/elastic/control_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/peer_json.h"

namespace ddprun::rendezvous {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Hello SomeHello() {
  Hello hello;
  hello.run_id = "job";
  hello.rules.min_nodes = 2;
  hello.rules.max_nodes = 4;
  hello.rules.max_restarts = 3;
  hello.rules.join_timeout = std::chrono::milliseconds(1500);
  hello.node = {.host = "a", .pid = 7, .wished_rank = 2, .local_world_size = 8, .role = "r"};
  hello.keep_alive = {std::chrono::milliseconds(250), 2};
  hello.local_addr = "10.0.0.7";
  return hello;
}

TEST(ControlMessage, AHelloComesBackAsItWas) {
  const Hello back = *ParseHello(ToJson(SomeHello()));
  EXPECT_EQ(back.run_id, "job");
  EXPECT_EQ(back.rules.min_nodes, 2);
  EXPECT_EQ(back.rules.max_nodes, 4);
  EXPECT_EQ(back.rules.max_restarts, 3);
  EXPECT_EQ(back.rules.join_timeout.count(), 1500);
  EXPECT_EQ(back.rules.last_call_timeout.count(), 30'000);
  EXPECT_EQ(back.node.host, "a");
  EXPECT_EQ(back.node.wished_rank, 2);
  EXPECT_EQ(back.node.local_world_size, 8);
  EXPECT_EQ(back.node.role, "r");
  EXPECT_EQ(back.keep_alive.interval.count(), 250);
  EXPECT_EQ(back.keep_alive.max_attempts, 2);
  EXPECT_EQ(back.local_addr, "10.0.0.7");
}

TEST(ControlMessage, AHelloOfAJobWithSeveralHostsComesBackAsItWas) {
  Hello hello = SomeHello();
  hello.hosts = "a:1,b:2,c:3";
  hello.node.past = Past{.rounds = 5, .restarts = 2, .nodes = 3};
  const Hello back = *ParseHello(ToJson(hello));
  EXPECT_EQ(back.hosts, "a:1,b:2,c:3");
  ASSERT_TRUE(back.node.past.has_value());
  EXPECT_EQ(back.node.past->rounds, 5);
  EXPECT_EQ(back.node.past->restarts, 2);
  EXPECT_EQ(back.node.past->nodes, 3);
  json nonsense = ToJson(hello);
  nonsense["past"]["nodes"] = -3;
  EXPECT_FALSE(ParseHello(nonsense)->node.past.has_value());
  hello.hosts = std::string(10'000, 'x');
  EXPECT_FALSE(ParseHello(ToJson(hello)).has_value());
}

TEST(ControlMessage, ABallotAndAVoteComeBackAsTheyWere) {
  const uint64_t large = ~uint64_t{0} - 4;
  const Ballot ballot = *BallotOf(ToJson(Ballot{.kind = Ballot::Kind::kLead,
                                                .job = "job",
                                                .candidate = 2,
                                                .epoch = 7,
                                                .process = large,
                                                .lease = std::chrono::milliseconds(900),
                                                .all_new = {1, large}}));
  EXPECT_EQ(ballot.kind, Ballot::Kind::kLead);
  EXPECT_EQ(ballot.job, "job");
  EXPECT_EQ(ballot.candidate, 2);
  EXPECT_EQ(ballot.epoch, 7);
  EXPECT_EQ(ballot.process, large);
  EXPECT_EQ(ballot.lease.count(), 900);
  EXPECT_EQ(ballot.all_new, (std::vector<uint64_t>{1, large}));
  const Vote vote = *VoteOf(ToJson(Vote{.granted = true,
                                        .voter = large,
                                        .epoch = 3,
                                        .leader = 1,
                                        .left = std::chrono::milliseconds(5)}));
  EXPECT_TRUE(vote.granted);
  EXPECT_EQ(vote.voter, large);
  EXPECT_EQ(vote.epoch, 3);
  EXPECT_EQ(vote.leader, 1);
  EXPECT_EQ(vote.left.count(), 5);
}

TEST(ControlMessage, RefusesNonsenseInABallot) {
  const json good = ToJson(Ballot{.job = "job", .lease = std::chrono::seconds(1)});
  ASSERT_TRUE(BallotOf(good).has_value());
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, json>>{{"kind", 3},
                                                 {"kind", nullptr},
                                                 {"candidate", 100},
                                                 {"candidate", "a"},
                                                 {"epoch", -1},
                                                 {"lease_ms", 0},
                                                 {"lease_ms", 1e300},
                                                 {"job", std::string(10'000, 'x')}}) {
    json bad = good;
    bad[key] = value;
    EXPECT_FALSE(BallotOf(bad).has_value()) << key;
  }
  EXPECT_FALSE(VoteOf(json{{"type", "vote"}}).has_value());
}

TEST(ControlMessage, RefusesNonsenseInAHello) {
  const json good = ToJson(SomeHello());
  for (const auto& [key, value] : std::map<std::string, json>{{"min_nodes", 5},
                                                              {"min_nodes", 0},
                                                              {"max_nodes", 1 << 29},
                                                              {"max_restarts", -1},
                                                              {"join_timeout_ms", "soon"},
                                                              {"local_world_size", 1e300},
                                                              {"keep_alive_interval_ms", 0},
                                                              {"keep_alive_max_attempt", nullptr},
                                                              {"type", "join"}}) {
    json bad = good;
    bad[key] = value;
    EXPECT_FALSE(ParseHello(bad).has_value()) << key;
  }
  EXPECT_FALSE(ParseHello(json::object()).has_value());
}

TEST(ControlMessage, SaysWhichVersionOfTheProtocolIsSpoken) {
  json other = ToJson(SomeHello());
  other["protocol"] = 9;
  const auto parsed = ParseHello(other);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_THAT(parsed.error().what, HasSubstr("version 9"));
  EXPECT_THAT(parsed.error().what, HasSubstr("version " + std::to_string(kControlProtocol)));
}

TEST(ControlMessage, AMembershipComesBackAsItWas) {
  ReachStore reach;
  reach.attempt = 5;
  reach.membership.round = 2;
  reach.membership.restart_count = 1;
  reach.membership.node_rank = 3;
  reach.membership.nnodes = 4;
  reach.membership.base_rank = 24;
  reach.membership.world_size = 32;
  reach.membership.role_base_rank = 8;
  reach.membership.role_world_size = 16;
  reach.membership.master_addr = "::1";
  reach.membership.master_port = 65'000;
  reach.membership.stands_in = true;
  const json message = ToJson(reach);
  const Membership back = *MembershipOf(message);
  EXPECT_EQ(NumberOf(message, "attempt"), 5);
  EXPECT_EQ(back.round, 2);
  EXPECT_EQ(back.restart_count, 1);
  EXPECT_EQ(back.node_rank, 3);
  EXPECT_EQ(back.nnodes, 4);
  EXPECT_EQ(back.base_rank, 24);
  EXPECT_EQ(back.world_size, 32);
  EXPECT_EQ(back.role_base_rank, 8);
  EXPECT_EQ(back.role_world_size, 16);
  EXPECT_EQ(back.master_addr, "::1");
  EXPECT_EQ(back.master_port, 65'000);
  EXPECT_TRUE(back.stands_in);
  json older = message;  // of a ddprun without spares that stand in
  older.erase("stands_in");
  EXPECT_FALSE(MembershipOf(older)->stands_in);
}

TEST(ControlMessage, RefusesRanksAndPortsThatMakeNoSense) {
  ReachStore reach;
  reach.membership.master_addr = "10.0.0.1";
  reach.membership.master_port = 4000;
  const json good = ToJson(reach);
  EXPECT_TRUE(MembershipOf(good).has_value());
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, json>>{{"node_rank", 1},
                                                 {"node_rank", -1},
                                                 {"nnodes", "many"},
                                                 {"base_rank", 2},
                                                 {"world_size", int64_t{1} << 40},
                                                 {"role_base_rank", nullptr},
                                                 {"restart_count", -1},
                                                 {"master_addr", ""},
                                                 {"master_port", 65'536},
                                                 {"master_port", 0}}) {
    json bad = good;
    bad[key] = value;
    EXPECT_FALSE(MembershipOf(bad).has_value()) << key << " " << value;
  }
  EXPECT_EQ(RoundEndOf(json{{"node_rank", int64_t{1} << 32}}).node_rank, -1);
  EXPECT_FALSE(PortOf(json{{"port", 65'536 + 80}}, "port").has_value());
}

TEST(ControlMessage, AnEndComesBackAsItWas) {
  for (const auto kind :
       {RoundEnd::Kind::kJobFailed, RoundEnd::Kind::kRestart, RoundEnd::Kind::kRegroup}) {
    const json message =
        ToJson(ReportEnd{3, {.kind = kind, .node_rank = 1, .message = "x", .exit_code = 42}});
    EXPECT_EQ(TextOf(message, "type"), "end");
    EXPECT_EQ(NumberOf(message, "attempt"), 3);
    const RoundEnd back = RoundEndOf(message);
    EXPECT_EQ(back.kind, kind);
    EXPECT_EQ(back.node_rank, 1);
    EXPECT_EQ(back.message, "x");
    EXPECT_EQ(back.exit_code, 42);
  }
}

TEST(ControlMessage, AnEndOfAnUnknownKindIsAFailure) {
  EXPECT_EQ(RoundEndOf(json{{"kind", "celebrate"}}).kind, RoundEnd::Kind::kJobFailed);
  EXPECT_EQ(RoundEndOf(json{{"kind", 3}}).kind, RoundEnd::Kind::kJobFailed);
}

// The coordinator sends a node's texts to all nodes, in messages of a limited size.
TEST(ControlMessage, WhatANodeSaysIsCut) {
  Hello hello;
  hello.run_id = "x";
  hello.node.host = std::string(200'000, 'h') + "\033[2J";
  const auto read = ParseHello(ToJson(hello));
  ASSERT_TRUE(read.has_value());
  EXPECT_LT(read->node.host.size(), 1000);
  RoundEnd end;
  end.message = std::string(200'000, 'm');
  end.worker =
      std::make_shared<nlohmann::json>(nlohmann::json{{"error", std::string(200'000, 'w')}});
  const RoundEnd told = EndOf(EndMessage("end", 1, end));
  EXPECT_LT(ToJson(ReportEnd{1, told}).dump().size(), 10'000);
}

}  // namespace
}  // namespace ddprun::rendezvous

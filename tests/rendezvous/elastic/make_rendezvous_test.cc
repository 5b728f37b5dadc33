#include "rendezvous/elastic/make_rendezvous.h"

#include <gtest/gtest.h>

#include "rendezvous/elastic/elastic_rendezvous.h"
#include "rendezvous/static_rendezvous.h"

namespace ddprun::rendezvous {
namespace {

class MakeRendezvousTest : public testing::Test {
 protected:
  std::string PageOfError() {
    const auto made = MakeRendezvous(io_, options_);
    if (made.has_value()) return "";
    EXPECT_EQ(made.error().code, Code::kUsage);
    return made.error().page;
  }
  bool MakesElastic() {
    const auto made = MakeRendezvous(io_, options_);
    return made.has_value() && dynamic_cast<const ElasticRendezvous*>(made->get()) != nullptr;
  }

  asio::io_context io_;
  RendezvousOptions options_;
};

TEST_F(MakeRendezvousTest, IsStaticUnlessC10dIsAskedFor) {
  options_.max_nodes = 2;
  options_.node_rank = 1;
  EXPECT_FALSE(MakesElastic());
  options_.backend = "c10d";
  EXPECT_TRUE(MakesElastic());
}

TEST_F(MakeRendezvousTest, OneNodeThatNobodyCanFindNeedsNoCoordinator) {
  options_.backend = "c10d";
  EXPECT_FALSE(MakesElastic());
  options_.endpoint = "localhost:29400";
  EXPECT_TRUE(MakesElastic());
  options_.endpoint = "localhost:0";
  EXPECT_FALSE(MakesElastic());
}

TEST_F(MakeRendezvousTest, TakesLiteralsOfBothFamilies) {
  options_.backend = "c10d";
  for (const char* endpoint : {"10.0.0.1", "10.0.0.1:1", "[fe80::1]:1", "::1", "node-7:29400"}) {
    options_.endpoint = endpoint;
    EXPECT_TRUE(MakesElastic()) << endpoint;
  }
  options_.endpoint = "node:port";
  EXPECT_EQ(PageOfError(), "endpoint");
  options_.endpoint = "node:0";
  options_.max_nodes = 2;
  EXPECT_EQ(PageOfError(), "endpoint");
}

TEST_F(MakeRendezvousTest, ReadsTorchrunsConfiguration) {
  options_.backend = "c10d";
  options_.endpoint = "localhost";
  options_.conf = {{"join_timeout", "5"},
                   {"last_call_timeout", "0.5"},
                   {"close_timeout", "1"},
                   {"keep_alive_interval", "0.2"},
                   {"keep_alive_max_attempt", "2"},
                   {"is_host", "True"},
                   {"timeout", "900"},
                   {"read_timeout", "60"}};
  EXPECT_TRUE(MakesElastic());
  const std::map<std::string, std::string> bad = {
      {"join_timeout", "0"},         {"last_call_timeout", "-1"}, {"keep_alive_max_attempt", "0"},
      {"keep_alive_interval", "1s"}, {"is_host", "maybe"},        {"close_timeout", "nan"}};
  for (const auto& [key, value] : bad) {
    options_.conf = {{key, value}};
    EXPECT_EQ(PageOfError(), "bad-value") << key;
  }
}

TEST_F(MakeRendezvousTest, RefusesNumbersThatMakeNoSense) {
  options_.backend = "c10d";
  options_.endpoint = "localhost";
  options_.min_nodes = 3;
  options_.max_nodes = 2;
  EXPECT_EQ(PageOfError(), "nnodes");
  options_.backend = "static";
  options_.node_rank = 2;
  EXPECT_EQ(PageOfError(), "node-rank");
}

}  // namespace
}  // namespace ddprun::rendezvous

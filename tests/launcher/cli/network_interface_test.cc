#include "launcher/cli/network_interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

rendezvous::OwnAddress Own(const std::string& interface, const std::string& address, bool up) {
  return {asio::ip::make_address(address), interface, up};
}

const std::vector<rendezvous::OwnAddress> kOwn = {
    Own("lo", "127.0.0.1", true),  Own("eth0", "192.168.7.2", true), Own("ib0", "fe80::1", true),
    Own("ib0", "fd00:1::2", true), Own("ib1", "10.1.2.3", false),    Own("ib2", "fd00:2::2", true),
    Own("ib2", "10.1.9.9", true)};

std::string Found(const std::string& wanted) {
  const auto found = FindInterface(wanted, kOwn);
  return found ? found->interface + " " + found->address.to_string() : "";
}

TEST(FindInterface, TakesNamesAndNetworks) {
  EXPECT_EQ(Found("eth0"), "eth0 192.168.7.2");
  EXPECT_EQ(Found("ib0"), "ib0 fd00:1::2");
  EXPECT_EQ(Found("ib1"), "ib1 10.1.2.3");
  EXPECT_EQ(Found("ib2"), "ib2 10.1.9.9");
  EXPECT_EQ(Found("10.1.0.0/16"), "ib2 10.1.9.9");
  EXPECT_EQ(Found("10.1.2.0/24"), "ib1 10.1.2.3");
  EXPECT_EQ(Found("fd00:2::/32"), "ib2 fd00:2::2");
}

TEST(FindInterface, NamesAllThatThereAre) {
  for (const char* wanted : {"eth", "eth00", "10.2.0.0/16", "10.1.0.0/99", "x/y", "/"}) {
    const auto found = FindInterface(wanted, kOwn);
    ASSERT_FALSE(found) << wanted;
    EXPECT_THAT(found.error().what, testing::HasSubstr("\n  ib1  10.1.2.3  down")) << wanted;
  }
}

TEST(UseInterface, LeavesWhatTheUserHasSet) {
  Environment env;
  env.Set("GLOO_SOCKET_IFNAME", "eth9");
  UseInterface("ib0", env);
  EXPECT_EQ(env.GetOr("GLOO_SOCKET_IFNAME", ""), "eth9");
  EXPECT_EQ(env.GetOr("NCCL_SOCKET_IFNAME", ""), "=ib0");
  EXPECT_EQ(env.GetOr("DDPRUN_NET_INTERFACE", ""), "ib0");
}

}  // namespace
}  // namespace ddprun::launcher

#include "rendezvous/net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ddprun::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HostPort Parsed(const std::string& text, uint16_t default_port = 0) {
  auto parsed = ParseHostPort(text, default_port);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.has_value() ? *parsed : HostPort{};
}

std::vector<std::string> Texts(const std::vector<asio::ip::address>& addresses) {
  std::vector<std::string> texts;
  for (const auto& address : addresses) texts.push_back(address.to_string());
  return texts;
}

TEST(ParseHostPort, ReadsNamesAndLiterals) {
  EXPECT_EQ(Parsed("node0:29500"), (HostPort{"node0", 29500}));
  EXPECT_EQ(Parsed("10.0.0.1:1"), (HostPort{"10.0.0.1", 1}));
  EXPECT_EQ(Parsed("[fd00::1]:65535"), (HostPort{"fd00::1", 65535}));
}

TEST(ParseHostPort, TakesTheDefaultPortWhenThereIsNone) {
  EXPECT_EQ(Parsed("node0", 29400), (HostPort{"node0", 29400}));
  EXPECT_EQ(Parsed("[::1]", 29400), (HostPort{"::1", 29400}));
  EXPECT_EQ(Parsed("::1", 29400), (HostPort{"::1", 29400}));
}

TEST(ParseHostPort, SaysWhatIsWrong) {
  const auto problem = [](const std::string& text) {
    const auto parsed = ParseHostPort(text);
    EXPECT_FALSE(parsed.has_value()) << text;
    if (parsed.has_value()) return std::string();
    EXPECT_EQ(parsed.error().code, Code::kUsage);
    return parsed.error().what;
  };
  EXPECT_THAT(problem(""), HasSubstr("host is missing"));
  EXPECT_THAT(problem(":29500"), HasSubstr("host is missing"));
  EXPECT_THAT(problem("node0:"), HasSubstr("port is \"\""));
  EXPECT_THAT(problem("node0:65536"), HasSubstr("0 to 65535"));
  EXPECT_THAT(problem("node0:-1"), HasSubstr("0 to 65535"));
  EXPECT_THAT(problem("node0:29500x"), HasSubstr("29500x"));
  EXPECT_THAT(problem("[::1:29500"), HasSubstr("bracket"));
  EXPECT_THAT(problem("[::1]29500"), HasSubstr("':' expected"));
  EXPECT_THAT(problem("[node0]:1"), HasSubstr("no IPv6"));
  EXPECT_THAT(problem("a:b:c"), HasSubstr("several ':'"));
  EXPECT_THAT(problem("tcp://node0:1"), HasSubstr("several ':'"));
  EXPECT_THAT(problem("a b:1"), HasSubstr("no host name"));
}

TEST(HostPortText, GivesIpv6ItsBrackets) {
  EXPECT_EQ(ToString(HostPort{"::1", 5}), "[::1]:5");
  EXPECT_EQ(ToString(HostPort{"node0", 5}), "node0:5");
}

TEST(ResolveLocally, KnowsLiteralsLocalhostAndTheHostsFile) {
  const std::string path = testing::TempDir() + "ddprun_hosts." + std::to_string(::getpid());
  std::ofstream(path) << "127.0.0.1 localhost\n# 9.9.9.9 node7\n10.1.2.3\tNode7.cluster node7 # x\n"
                         "fd00::7 node7\n";
  EXPECT_THAT(Texts(ResolveLocally("10.0.0.9", path)), ElementsAre("10.0.0.9"));
  EXPECT_THAT(Texts(ResolveLocally("::1", path)), ElementsAre("::1"));
  EXPECT_THAT(Texts(ResolveLocally("localhost", path)), ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(Texts(ResolveLocally("NODE7", path)), ElementsAre("10.1.2.3", "fd00::7"));
  EXPECT_THAT(Texts(ResolveLocally("node8", path)), IsEmpty());
  EXPECT_THAT(Texts(ResolveLocally("node8", "/nonexistent")), IsEmpty());
  std::filesystem::remove(path);
}

TEST(OwnAddress, KnowsThisMachine) {
  EXPECT_TRUE(IsOwnAddress(asio::ip::make_address("127.0.0.1")));
  EXPECT_FALSE(IsOwnAddress(asio::ip::make_address("192.0.2.1")));  // reserved for documentation
  EXPECT_FALSE(HostName().empty());
}

TEST(Loopback, IsWhatTheUserNamesSo) {
  EXPECT_TRUE(NamesLoopback("localhost"));
  EXPECT_TRUE(NamesLoopback("127.0.1.1"));
  EXPECT_TRUE(NamesLoopback("::1"));
  EXPECT_FALSE(NamesLoopback("node0"));
  EXPECT_FALSE(NamesLoopback("0.0.0.0"));
}

}  // namespace
}  // namespace ddprun::rendezvous

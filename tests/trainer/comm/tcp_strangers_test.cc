// The connections of ranks, and those to a rank's port that are not from the ranks of its job.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

#include "base/unique_fd.h"
#include "tests/trainer/comm/transports.h"
#include "trainer/comm/net/tcp_greeting.h"

namespace ddprun::trainer {
namespace {

UniqueFd ConnectTo(const Transport& rank) {
  const TcpAddress address = *TcpAddress::Parse(rank.address());
  sockaddr_in place{
      .sin_family = AF_INET, .sin_port = htons(address.port), .sin_addr = {}, .sin_zero = {}};
  inet_pton(AF_INET, address.host.c_str(), &place.sin_addr);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  return socket;
}

void Say(const UniqueFd& socket, const std::string& bytes) {
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// Progresses the rank until the other end of the socket is closed; returns false after 10 s.
bool IsClosed(Transport& rank, const UniqueFd& socket) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  char byte = 0;
  while (std::chrono::steady_clock::now() < end) {
    rank.Progress();
    const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
  }
  return false;
}

bool StillWork(const std::vector<std::shared_ptr<Transport>>& ranks) {
  int sent = 41;
  int received = 0;
  const auto receive = ranks[1]->Receive(0, 1, &received, sizeof received);
  ranks[0]->Send(1, 1, &sent, sizeof sent);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!receive->done && std::chrono::steady_clock::now() < end) {
    for (const auto& rank : ranks) rank->Progress();
  }
  return received == 41;
}

TEST(TcpStrangers, AreTurnedAway) {
  const auto ranks = ConnectedTransports(2);
  const TcpGreeting right{
      .from = 0, .to = 1, .cookie = TcpAddress::Parse(ranks[1]->address())->cookie};
  TcpGreeting wrong_cookie = right;
  wrong_cookie.cookie[15] ^= 1;
  TcpGreeting of_rank_0 = right;
  of_rank_0.cookie = TcpAddress::Parse(ranks[0]->address())->cookie;
  TcpGreeting for_another = right;
  for_another.to = 0;
  TcpGreeting from_nobody = right;
  from_nobody.from = 2;
  TcpGreeting negative = right;
  negative.from = -1;
  std::string wrong_version = right.Pack();
  wrong_version[7] = 2;
  for (const std::string& said :
       {wrong_cookie.Pack(), of_rank_0.Pack(), for_another.Pack(), from_nobody.Pack(),
        negative.Pack(), wrong_version,
        std::string("GET / HTTP/1.1\r\nHost: node1.example.org\r\n\r\n")}) {
    const UniqueFd socket = ConnectTo(*ranks[1]);
    Say(socket, said);
    EXPECT_TRUE(IsClosed(*ranks[1], socket)) << said;
  }
  EXPECT_TRUE(StillWork(ranks));
  // A second connection of a rank, as of somebody who has read the store.
  const UniqueFd second = ConnectTo(*ranks[1]);
  Say(second, right.Pack());
  EXPECT_TRUE(IsClosed(*ranks[1], second));
  EXPECT_TRUE(StillWork(ranks));
}

TEST(TcpStrangers, MayNotHoldMorePlacesThanThereAre) {
  const auto ranks = ConnectedTransports(2);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 600; ++i) {
    silent.push_back(ConnectTo(*ranks[1]));
    if (i % 2 == 0) Say(silent.back(), "ddprun");  // the beginning of a greeting
    ranks[1]->Progress();
  }
  EXPECT_TRUE(StillWork(ranks));
  EXPECT_TRUE(IsClosed(*ranks[1], silent.front())) << "the oldest one makes room";
}

// With the option of the same name the kernel would end a connection to a rank that computes for
// long and does not read meanwhile.
TEST(TcpConnections, HaveNoUserTimeout) {
  const auto ranks = ConnectedTransports(2);
  ASSERT_TRUE(StillWork(ranks));
  int connections = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    if (info.tcpi_state != TCP_ESTABLISHED) continue;
    int timeout = -1;
    size = sizeof timeout;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size), 0);
    EXPECT_EQ(timeout, 0);
    int keepalive = 0;
    size = sizeof keepalive;
    EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keepalive, &size), 0);
    EXPECT_EQ(keepalive, 1);
    ++connections;
  }
  EXPECT_EQ(connections, 2) << "the two ends of one connection";
}

TEST(TcpConnections, MayUseIpv6) {
  std::vector<std::shared_ptr<Transport>> ranks;
  std::vector<std::string> addresses;
  for (const int rank : {0, 1}) {
    auto opened =
        Transport::Create({.rank = rank, .kind = Transport::Kind::kTcp, .own_address = "::1"});
    if (!opened) GTEST_SKIP() << opened.error().what;
    ranks.push_back(*std::move(opened));
    addresses.push_back(ranks.back()->address());
  }
  for (const auto& rank : ranks) rank->SetPeers(addresses);
  EXPECT_TRUE(StillWork(ranks));
}

TEST(TcpConnections, NameAnAddressThatThisHostDoesNotHave) {
  const auto opened =
      Transport::Create({.kind = Transport::Kind::kTcp, .own_address = "192.0.2.1"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().title, "NO PORT FOR RANKS");
  EXPECT_NE(opened.error().what.find("192.0.2.1"), std::string::npos) << opened.error().what;
}

TEST(TcpGreeting, IsReadAsItWasWritten) {
  const TcpGreeting greeting{.from = 70'000, .to = 3, .cookie = TcpGreeting::NewCookie()};
  const std::optional<TcpGreeting> read = TcpGreeting::Unpack(greeting.Pack());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->from, 70'000);
  EXPECT_EQ(read->to, 3);
  EXPECT_EQ(read->cookie, greeting.cookie);
  EXPECT_NE(TcpGreeting::NewCookie(), greeting.cookie);
  EXPECT_FALSE(TcpGreeting::Unpack(greeting.Pack().substr(1)));
  const TcpAddress address{.host = "fd00::1", .port = 40'001, .cookie = greeting.cookie};
  const std::optional<TcpAddress> parsed = TcpAddress::Parse(address.ToText());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->host, "fd00::1");
  EXPECT_EQ(parsed->port, 40'001);
  EXPECT_EQ(parsed->cookie, greeting.cookie);
  for (const std::string& text :
       {std::string(), std::string("10.0.0.1"), std::string("10.0.0.1 5 12"),
        "10.0.0.1 70000 " + std::string(32, '0'), "10.0.0.1 5 " + std::string(32, 'g')}) {
    EXPECT_FALSE(TcpAddress::Parse(text)) << text;
  }
}

}  // namespace
}  // namespace ddprun::trainer

#include "rendezvous/store/store_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "rendezvous/store/tcp_store.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/store/raw_client.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(StoreServer, ServesRequestsThatComeByteByByte) {
  ServedStore served;
  Stream stream = Connected(served.endpoint());
  Request ping;
  ping.nonce = 0x01020304;
  for (const char byte : Greeting() + Encoded(SetRequest("/k", "v")) + Encoded(ping)) {
    ASSERT_TRUE(stream.Write(std::string_view(&byte, 1), Soon()).ok());
  }
  std::string answer;
  while (answer.size() < 4) {
    char buffer[4];
    answer.append(buffer, *stream.ReadSome(buffer, Soon()));
  }
  EXPECT_EQ(answer, "\x04\x03\x02\x01");
  EXPECT_EQ(served.loop().Do([&] { return served.server().Summary().keys; }), 1);
}

TEST(StoreServer, ClosesOnlyTheConnectionWithMalformedBytes) {
  ServedStore served;
  auto good = *TcpStore::Connect(served.endpoint(), Soon());
  Stream http = Connected(served.endpoint());
  ASSERT_TRUE(http.Write("GET / HTTP/1.1\r\n\r\n", Soon()).ok());
  EXPECT_TRUE(IsClosed(http));
  Stream unvalidated = Connected(served.endpoint());
  ASSERT_TRUE(unvalidated.Write(Encoded(SetRequest("/k", "v")), Soon()).ok());
  EXPECT_TRUE(IsClosed(unvalidated));
  Stream unknown = Connected(served.endpoint());
  ASSERT_TRUE(unknown.Write(Greeting() + "\x7f", Soon()).ok());
  EXPECT_TRUE(IsClosed(unknown));
  EXPECT_EQ(*good->Add("n", 1, Soon()), 1);
}

TEST(StoreServer, SurvivesRandomBytes) {
  ServedStore served;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = Greeting();
    for (int i = 0; i < 64; ++i) bytes.push_back(static_cast<char>(random() % (i % 9 ? 3 : 256)));
    Stream stream = Connected(served.endpoint());
    (void)stream.Write(bytes, Soon());
  }
  EXPECT_TRUE(Works(served.endpoint()));
}

TEST(StoreServer, WakesManyClients) {
  ServedStore served;
  const HostPort endpoint = served.endpoint();
  constexpr int kClients = 300;
  std::vector<Stream> clients;
  Request wait;
  wait.op = Op::kWait;
  wait.keys = {"/go"};
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(Connected(endpoint));
    ASSERT_TRUE(clients.back().Write(Greeting() + Encoded(wait), Soon()).ok());
  }
  ASSERT_TRUE((*TcpStore::Connect(endpoint, Soon()))->Set("go", "", Soon()).ok());
  for (Stream& client : clients) {
    char byte = 1;
    ASSERT_TRUE(client.ReadSome(std::span(&byte, 1), Soon()).has_value());
    EXPECT_EQ(byte, kStopWaiting);
  }
}

TEST(StoreServer, TellsWhatADeadConnectionWaitedFor) {
  ServedStore served;
  std::promise<std::vector<std::string>> abandoned;
  served.loop().Do([&] {
    served.server().OnAbandonedWait([&](const auto& keys) { abandoned.set_value(keys); });
  });
  Request wait;
  wait.op = Op::kWait;
  wait.keys = {"/a", "/b"};
  {
    Stream stream = Connected(served.endpoint());
    ASSERT_TRUE(stream.Write(Greeting() + Encoded(wait), Soon()).ok());
    while (served.loop().Do([&] { return served.server().ParkedWaits().empty(); })) {
      std::this_thread::yield();
    }
    const auto parked = served.loop().Do([&] { return served.server().ParkedWaits(); });
    EXPECT_THAT(parked.at(0).peer, HasSubstr("127.0.0.1:"));
    EXPECT_THAT(parked.at(0).keys, ElementsAre("/a", "/b"));
  }
  EXPECT_THAT(abandoned.get_future().get(), ElementsAre("/a", "/b"));
}

TEST(StoreServer, CountsAWaitThatIsCancelledAndRepeatedAsOne) {
  ServedStore served;
  auto store = *TcpStore::Connect(served.endpoint(), Soon());
  const std::vector<std::string> keys = {"never"};
  std::vector<std::chrono::steady_clock::time_point> since;
  for (int slice = 0; slice < 2; ++slice) {
    std::thread client([&] { (void)store->Wait(keys, DeadlineAfter(milliseconds(200))); });
    std::vector<ParkedWait> parked;
    while (parked.empty()) {
      parked = served.loop().Do([&] { return served.server().ParkedWaits(); });
    }
    since.push_back(parked.at(0).since);
    client.join();
  }
  EXPECT_EQ(since[0], since[1]);
}

TEST(StoreServer, AnswersItsHostInProcess) {
  ServedStore served;
  std::promise<Reply> woken;
  std::promise<bool> set;
  served.loop().Do([&] {
    Request wait;
    wait.op = Op::kWait;
    wait.keys = {"/k"};
    served.server().Call(wait, [&](Result<Reply> reply) { woken.set_value(*reply); });
    served.server().Call(SetRequest("/other", "v"),
                         [&](const Result<Reply>& reply) { set.set_value(reply.has_value()); });
  });
  EXPECT_TRUE(set.get_future().get());
  ASSERT_TRUE((*TcpStore::Connect(served.endpoint(), Soon()))->Set("k", "v", Soon()).ok());
  EXPECT_EQ(woken.get_future().get().status, kStopWaiting);
}

TEST(StoreServer, TellsWhenEverybodyHasLeft) {
  ServedStore served;
  std::promise<void> left;
  auto store = *TcpStore::Connect(served.endpoint(), Soon());
  served.loop().Do(
      [&] { served.server().OnAllDisconnected(std::chrono::hours(1), [&] { left.set_value(); }); });
  auto future = left.get_future();
  EXPECT_EQ(future.wait_for(milliseconds(20)), std::future_status::timeout);
  store.reset();
  future.get();
}

TEST(StoreServer, DoesNotWaitForeverForThoseWhoStay) {
  ServedStore served;
  std::promise<void> over;
  auto store = *TcpStore::Connect(served.endpoint(), Soon());
  served.loop().Do(
      [&] { served.server().OnAllDisconnected(milliseconds(10), [&] { over.set_value(); }); });
  over.get_future().get();
}

TEST(StoreServer, ClosesEveryConnectionAtItsEnd) {
  ServedStore served;
  Stream stream = Connected(served.endpoint());
  ASSERT_TRUE(stream.Write(Greeting(), Soon()).ok());
  served.Stop();
  EXPECT_TRUE(IsClosed(stream));
}

TEST(StoreServer, SaysWhichPortIsTaken) {
  asio::io_context io;
  const auto first = *StoreServer::Listen(io, asio::ip::address_v4::loopback(), 0);
  const auto second = StoreServer::Listen(io, asio::ip::address_v4::loopback(), first->port());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kAddressInUse);
  EXPECT_EQ(second.error().page, "port-taken");
  EXPECT_THAT(second.error().what, HasSubstr("127.0.0.1:" + std::to_string(first->port())));
  EXPECT_THAT(second.error().what, HasSubstr("errno 98"));
  EXPECT_THAT(second.error().hint, HasSubstr("--master_port"));
}

TEST(StoreServer, SaysThatAnAddressIsNotThisMachines) {
  asio::io_context io;
  const auto server = StoreServer::Listen(io, asio::ip::make_address("192.0.2.1"), 0);
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().code, Code::kCannotListen);
  EXPECT_EQ(server.error().page, "cannot-listen");
}

TEST(StoreServer, ListensOnSeveralAddressesAtOnePort) {
  LoopThread loop;
  const std::vector<asio::ip::address> addresses = {asio::ip::make_address("127.0.0.1"),
                                                    asio::ip::make_address("192.0.2.1"),
                                                    asio::ip::make_address("127.0.0.2")};
  auto server = loop.Do([&] { return *StoreServer::Listen(loop.io(), addresses, 0); });
  EXPECT_TRUE(Works({"127.0.0.1", server->port()}));
  EXPECT_TRUE(Works({"127.0.0.2", server->port()}));
  loop.Do([&] { server.reset(); });
}

}  // namespace
}  // namespace ddprun::rendezvous

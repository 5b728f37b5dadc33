#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "rendezvous/store/store_server.h"
#include "rendezvous/store/wire.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/store/raw_client.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(StoreLimits, ClosesAMessageBeyondTheLimits) {
  StoreServerLimits limits;
  limits.wire.max_value_bytes = 1000;
  ServedStore served(limits);
  Stream stream = Connected(served.endpoint());
  ASSERT_TRUE(
      stream.Write(Greeting() + Encoded(SetRequest("/k", std::string(1001, 'x'))), Soon()).ok());
  EXPECT_TRUE(IsClosed(stream));
  EXPECT_TRUE(Works(served.endpoint()));
}

TEST(StoreLimits, ClosesConnectionsThatSayNothing) {
  StoreServerLimits limits;
  limits.handshake_timeout = milliseconds(20);
  ServedStore served(limits);
  auto patient = *TcpStore::Connect(served.endpoint(), Soon());
  Stream silent = Connected(served.endpoint());
  Stream half = Connected(served.endpoint());
  ASSERT_TRUE(half.Write(Greeting().substr(0, 3), Soon()).ok());
  EXPECT_TRUE(IsClosed(silent));
  EXPECT_TRUE(IsClosed(half));
  EXPECT_EQ(*patient->Add("n", 1, Soon()), 1);
}

TEST(StoreLimits, BoundsWhatAClientThatDoesNotReadCanPileUp) {
  StoreServerLimits limits;
  limits.max_unsent_bytes = 1 << 20;
  limits.stalled_write_timeout = milliseconds(200);
  ServedStore served(limits);
  auto good = *TcpStore::Connect(served.endpoint(), Soon());
  ASSERT_TRUE(good->Set("big", std::string(1 << 20, 'x'), Soon()).ok());
  ASSERT_EQ(*good->Add("n", 1, Soon()), 1);  // SET has no answer; this one comes after it
  Stream greedy = Connected(served.endpoint());
  Request get;
  get.op = Op::kGet;
  get.key = "/big";
  std::string bytes = Greeting();
  for (int i = 0; i < 10'000; ++i) bytes += Encoded(get);  // 10 GB of answers
  // Either all of it goes into the kernel's buffers, or the server hangs up in the middle.
  (void)greedy.Write(bytes, Soon());
  EXPECT_EQ(*good->Add("n", 1, Soon()), 2);
  // The server gives up on it in the end, when its kernel buffers have long been full.
  while (served.loop().Do([&] { return served.server().Summary().connections; }) > 1) {
    std::this_thread::yield();
  }
}

TEST(StoreLimits, AnswersAllOfALongPipelineToAReaderThatIsSlow) {
  StoreServerLimits limits;
  limits.max_unsent_bytes = 1 << 10;
  ServedStore served(limits);
  Stream stream = Connected(served.endpoint());
  Request get;
  get.op = Op::kGet;
  get.key = "/k";
  constexpr size_t kGets = 3000;
  constexpr size_t kValueBytes = 5000;
  std::string bytes = Greeting() + Encoded(SetRequest("/k", std::string(kValueBytes, 'x')));
  for (size_t i = 0; i < kGets; ++i) bytes += Encoded(get);
  ASSERT_TRUE(stream.Write(bytes, Soon()).ok());
  size_t received = 0;
  std::string buffer(1 << 16, '\0');
  while (received < kGets * (kValueBytes + 8)) {
    const auto count = stream.ReadSome(buffer, Soon());
    ASSERT_TRUE(count.has_value()) << "after " << received;
    received += *count;
  }
  EXPECT_EQ(received, kGets * (kValueBytes + 8));
}

TEST(StoreLimits, LetsClientsWaitWhileThereIsNoRoomAndSaysSoOnce) {
  StoreServerLimits limits;
  limits.max_connections = 1;
  ServedStore served(limits);
  std::promise<Error> said;
  served.loop().Do(
      [&] { served.server().OnExhausted([&](const Error& error) { said.set_value(error); }); });
  for (int round = 0; round < 2; ++round) {
    auto first = *TcpStore::Connect(served.endpoint(), Soon());
    Stream second = Connected(served.endpoint());
    ASSERT_TRUE(second.Write(Greeting() + Encoded(KeyRequest(Op::kPing, "")), Soon()).ok());
    if (round == 0) {
      const Error error = said.get_future().get();
      EXPECT_EQ(error.page, "too-many-connections");
      EXPECT_THAT(error.what, HasSubstr("has 1 connections"));
    }
    first.reset();
    char nonce[4];
    EXPECT_TRUE(second.ReadSome(nonce, Soon()).has_value());
  }
}

TEST(StoreLimits, WaitsCalmlyForADescriptorOnSeveralAddresses) {
  const std::vector<asio::ip::address> addresses = {asio::ip::make_address("127.0.0.1"),
                                                    asio::ip::make_address("127.0.0.2")};
  StoreServerLimits limits;
  limits.max_connections = 1;
  asio::io_context io;
  const auto server = *StoreServer::Listen(io, addresses, 0, limits);
  const Stream taken = Connected({"127.0.0.1", server->port()});
  const Stream first = Connected({"127.0.0.1", server->port()});
  const Stream second = Connected({"127.0.0.2", server->port()});
  size_t turns = 0;
  const auto until = std::chrono::steady_clock::now() + milliseconds(250);
  while (std::chrono::steady_clock::now() < until) turns += io.run_one_until(until);
  EXPECT_EQ(server->Summary().connections, 1);
  // A turn per socket and pause, and the sweep's; a loop that spins makes many thousands.
  EXPECT_LT(turns, 200);
}

TEST(StoreLimits, BoundsWhatAllConnectionsTogetherLeaveUnfinished) {
  StoreServerLimits limits;
  limits.max_buffered_bytes = 1 << 20;
  ServedStore served(limits);
  const std::string unfinished =
      Greeting() + Encoded(SetRequest("/k", std::string(2 << 20, 'x'))).substr(0, 600 << 10);
  Stream first = Connected(served.endpoint());
  ASSERT_TRUE(first.Write(unfinished, Soon()).ok());
  while (served.loop().Do([&] { return served.server().Summary().buffered_bytes; }) < 600'000) {
    std::this_thread::yield();
  }
  Stream second = Connected(served.endpoint());
  (void)second.Write(unfinished, Soon());
  EXPECT_TRUE(IsClosed(second));
  EXPECT_TRUE(Works(served.endpoint()));
  EXPECT_LE(served.loop().Do([&] { return served.server().Summary().buffered_bytes; }), 1 << 20);
}

// The kernel takes the beginning of a long reply, of which nothing is given back at first.
TEST(StoreLimits, CountsWhatHasBeenSentOfALongReply) {
  ServedStore served;
  const std::string value(48 << 20, 'x');
  Stream stream = Connected(served.endpoint());
  const std::string bytes =
      Greeting() + Encoded(SetRequest("/k", value)) + Encoded(KeyRequest(Op::kGet, "/k"));
  ASSERT_TRUE(stream.Write(bytes, Soon()).ok());
  const auto held = [&] {
    return served.loop().Do([&] { return served.server().Summary().buffered_bytes; });
  };
  char some[4];
  ASSERT_TRUE(stream.ReadSome(some, Soon()).has_value());
  while (held() < value.size()) std::this_thread::yield();
  std::string buffer(1 << 20, '\0');
  for (size_t left = value.size(); left > 0;) {
    const auto count = stream.ReadSome(buffer, Soon());
    ASSERT_TRUE(count.has_value());
    left -= std::min(left, *count);
  }
  while (held() > 0) std::this_thread::yield();
}

TEST(StoreLimits, RefusesWaitsThatTheStoreHasNoMemoryFor) {
  StoreServerLimits limits;
  limits.state.max_total_bytes = 100'000;
  ServedStore served(limits);
  Stream stream = Connected(served.endpoint());
  const Request wait = KeysRequest(Op::kWait, {std::string(60'000, 'a'), std::string(60'000, 'b')});
  ASSERT_TRUE(stream.Write(Greeting() + Encoded(wait), Soon()).ok());
  EXPECT_TRUE(IsClosed(stream));
  EXPECT_TRUE(Works(served.endpoint()));
}

TEST(StoreLimits, RefusesAListOfKeysThatIsTooLarge) {
  StoreServerLimits limits;
  limits.state.max_reply_bytes = 1000;
  ServedStore served(limits);
  Stream stream = Connected(served.endpoint());
  const std::string bytes = Greeting() + Encoded(SetRequest("/" + std::string(2000, 'k'), "v")) +
                            Encoded(KeyRequest(Op::kListKeys, ""));
  ASSERT_TRUE(stream.Write(bytes, Soon()).ok());
  EXPECT_TRUE(IsClosed(stream));
}

}  // namespace
}  // namespace ddprun::rendezvous

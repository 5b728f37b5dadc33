#include "rendezvous/store/store_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/store/wire.h"
#include "rendezvous/store/wire_decoder.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/store/raw_client.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

TEST(StoreStatus, SurvivesItsText) {
  StoreStatus status;
  status.connections = 3;
  status.bytes = 1234;
  status.num_waits = 1;
  status.waits = {{"10.0.0.7:4001", {"/a", "/b"}, 9, true, milliseconds(1500)}};
  const auto read = ParseStoreStatus(ToText(status));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->connections, 3);
  EXPECT_EQ(read->bytes, 1234);
  ASSERT_EQ(read->waits.size(), 1);
  EXPECT_EQ(read->waits[0].peer, "10.0.0.7:4001");
  EXPECT_THAT(read->waits[0].keys, ElementsAre("/a", "/b"));
  EXPECT_EQ(read->waits[0].num_keys, 9);
  EXPECT_TRUE(read->waits[0].barrier);
  EXPECT_EQ(read->waits[0].waited, milliseconds(1500));
}

TEST(StoreStatus, IsNoneOfOursOtherwise) {
  for (const char* text : {"", "{}", "[1]", "{\"connections\": \"many\"}", "\xff"}) {
    const auto read = ParseStoreStatus(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().page, "no-store-status");
  }
}

TEST(StoreStatus, IsWhatTheServerAnswersUnderAKeyThatNoClientHas) {
  ServedStore served;
  Stream stream = Connected(served.endpoint());
  const std::string bytes = Greeting() + Encoded(SetRequest("/k", "v")) +
                            Encoded(KeyRequest(Op::kGet, std::string(kStatusKey)));
  ASSERT_TRUE(stream.Write(bytes, Soon()).ok());
  ReplyDecoder decoder;
  decoder.Expect(Op::kGet, 0);
  Reply reply;
  for (bool complete = false; !complete;) {
    char buffer[512];
    std::string_view input(buffer, *stream.ReadSome(buffer, Soon()));
    complete = *decoder.Next(input, reply);
  }
  const auto status = ParseStoreStatus(reply.values.at(0));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->connections, 1);
  EXPECT_EQ(status->keys, 1);
  EXPECT_EQ(status->bytes, 3);
}

// Otherwise an answer would have all keys for each connection that waits.
TEST(StoreStatus, NamesFewOfTheKeysThatAreWaitedFor) {
  ServedStore served;
  constexpr size_t kKeys = 20'000;
  std::vector<std::string> keys;
  for (size_t i = 0; i < kKeys; ++i) keys.push_back("key-of-a-node-" + std::to_string(i));
  const std::string wait = Greeting() + Encoded(KeysRequest(Op::kWait, keys));
  std::vector<Stream> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.push_back(Connected(served.endpoint()));
    ASSERT_TRUE(waiting.back().Write(wait, Soon()).ok());
  }
  StoreStatus status;
  for (const Deadline deadline = Soon(); status.num_waits < waiting.size();) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    status = served.loop().Do([&] { return served.server().Summary(); });
  }
  for (const WaitStatus& one : status.waits) {
    EXPECT_EQ(one.num_keys, kKeys);
    EXPECT_EQ(one.keys.size(), kMostKeysTold);
  }
  EXPECT_LT(ToText(status).size(), 8'000);
}

}  // namespace
}  // namespace ddprun::rendezvous

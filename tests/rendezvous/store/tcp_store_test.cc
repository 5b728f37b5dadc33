#include "rendezvous/store/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "rendezvous/net/listener.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/unused_port.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class TcpStoreTest : public testing::Test {
 protected:
  std::unique_ptr<TcpStore> Connect() { return *TcpStore::Connect(served_.endpoint(), Soon()); }

  ServedStore served_;
  std::unique_ptr<TcpStore> store_ = Connect();
};

// Something that accepts connections and never answers.
struct SilentServer {
  Listeners listeners =
      *ListenOn(std::vector<asio::ip::address>{asio::ip::address_v4::loopback()}, 0);
  HostPort endpoint() const { return {"127.0.0.1", listeners.port}; }
};

TEST_F(TcpStoreTest, PerformsEveryCall) {
  const std::vector<std::string> keys = {"a", "b"};
  EXPECT_FALSE(*store_->Check(keys, Soon()));
  ASSERT_TRUE(store_->MultiSet(keys, std::vector<std::string>{"1", "2"}, Soon()).ok());
  EXPECT_TRUE(*store_->Check(keys, Soon()));
  EXPECT_TRUE(store_->Wait(keys, Soon()).ok());
  EXPECT_THAT(*store_->MultiGet(keys, Soon()), ElementsAre("1", "2"));
  ASSERT_TRUE(store_->Set("c", std::string("\0\xff", 2), Soon()).ok());
  EXPECT_EQ(*store_->Get("c", Soon()), std::string("\0\xff", 2));
  EXPECT_EQ(*store_->Add("n", 5, Soon()), 5);
  EXPECT_EQ(*store_->CompareSet("a", "1", "one", Soon()), "one");
  EXPECT_EQ(*store_->NumKeys(Soon()), 4);
  EXPECT_TRUE(*store_->Delete("a", Soon()));
  EXPECT_FALSE(*store_->Delete("a", Soon()));
}

TEST_F(TcpStoreTest, CarriesLargeValues) {
  std::string large(10 << 20, '\0');
  std::iota(large.begin(), large.end(), char{0});
  ASSERT_TRUE(store_->Set("large", large, Soon()).ok());
  EXPECT_TRUE(*store_->Get("large", Soon()) == large);
}

TEST_F(TcpStoreTest, PutsTorchsSlashBeforeKeys) {
  ASSERT_TRUE(store_->Set("k", "v", Soon()).ok());
  ASSERT_TRUE(store_->Check({}, Soon()).has_value());  // an answer: the SET has been done
  std::promise<std::string> value;
  served_.loop().Do([&] {
    Request get;
    get.op = Op::kGet;
    get.key = "/k";
    served_.server().Call(get, [&](Result<Reply> reply) { value.set_value(reply->values[0]); });
  });
  EXPECT_EQ(value.get_future().get(), "v");
}

TEST_F(TcpStoreTest, GetWaitsForTheKey) {
  auto got = std::async(std::launch::async, [&] { return *store_->Get("late", Soon()); });
  ASSERT_TRUE(Connect()->Set("late", "v", Soon()).ok());
  EXPECT_EQ(got.get(), "v");
}

TEST_F(TcpStoreTest, AWaitThatTimesOutNamesItsKeysAndLeavesTheConnectionUsable) {
  const auto waited = store_->Get("never", DeadlineAfter(milliseconds(1)));
  ASSERT_FALSE(waited.has_value());
  EXPECT_EQ(waited.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(waited.error().what, HasSubstr("never"));
  EXPECT_EQ(*store_->Add("n", 1, Soon()), 1);
  ASSERT_TRUE(store_->Set("never", "after all", Soon()).ok());
  EXPECT_EQ(*store_->Get("never", Soon()), "after all");
}

TEST_F(TcpStoreTest, TakesTheAnswerThatCrossesTheCancellation) {
  // Deadlines around the moment in which the key arrives: whichever wins, nothing is mixed up.
  auto other = Connect();
  for (int i = 0; i < 200; ++i) {
    const std::string key = "k" + std::to_string(i);
    auto waiting = std::async(std::launch::async,
                              [&] { return store_->Get(key, DeadlineAfter(milliseconds(i % 3))); });
    ASSERT_TRUE(other->Set(key, key, Soon()).ok());
    const auto got = waiting.get();
    if (got.has_value()) {
      EXPECT_EQ(*got, key);
    } else {
      EXPECT_EQ(got.error().code, Code::kDeadlineExceeded);
    }
  }
  EXPECT_EQ(*store_->Add("n", 1, Soon()), 1);
}

TEST_F(TcpStoreTest, SaysThatTheServerWentAway) {
  served_.Stop();
  const auto added = store_->Add("n", 1, Soon());
  ASSERT_FALSE(added.has_value());
  EXPECT_EQ(added.error().page, "connection-lost");
  EXPECT_FALSE(store_->Add("n", 1, Soon()).has_value());
}

TEST_F(TcpStoreTest, IsSharedByThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) ASSERT_TRUE(store_->Add("n", 1, Soon()).has_value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*store_->Add("n", 0, Soon()), 200);
}

TEST(TcpStoreConnect, HasADeadlineWhereNobodyAnswers) {
  const SilentServer silent;
  const auto store = TcpStore::Connect(silent.endpoint(), DeadlineAfter(milliseconds(30)));
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().code, Code::kDeadlineExceeded);
}

TEST(TcpStoreConnect, SaysWhyNobodyCouldBeReached) {
  const auto store =
      TcpStore::Connect({"127.0.0.1", UnusedPort()}, DeadlineAfter(milliseconds(30)));
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().code, Code::kRendezvous);
  EXPECT_THAT(store.error().what, HasSubstr("Connection refused"));
}

TEST(TcpStoreConnect, TriesUntilTheServerIsThere) {
  const uint16_t port = UnusedPort();
  auto connecting = std::async(std::launch::async, [&] {
    return TcpStore::Connect({"127.0.0.1", port}, Soon());
  });
  LoopThread loop;
  auto server = loop.Do(
      [&] { return *StoreServer::Listen(loop.io(), asio::ip::address_v4::loopback(), port); });
  EXPECT_TRUE(connecting.get().has_value());
  loop.Do([&] { server.reset(); });
}

}  // namespace
}  // namespace ddprun::rendezvous

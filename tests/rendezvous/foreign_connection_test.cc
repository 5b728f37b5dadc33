// A store server handles connections of other protocols at its port.
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "rendezvous/net/socket.h"
#include "rendezvous/store/tcp_store.h"
#include "tests/rendezvous/loop_thread.h"

namespace ddprun::rendezvous {
namespace {

TEST(ForeignConnection, GoesToItsHandlerWithWhatItSent) {
  ServedStore served;
  std::promise<std::string> promise;
  served.loop().Do([&] {
    served.server().OnForeignConnection('d', [&](const UniqueFd& fd, std::string received) {
      EXPECT_TRUE(fd.valid());
      promise.set_value(std::move(received));
    });
  });
  auto stream = *Stream::Connect(served.endpoint(), Soon());
  ASSERT_TRUE(stream.Write("ddprun", Soon()).ok());
  EXPECT_EQ(promise.get_future().get(), "ddprun");
  EXPECT_EQ(served.loop().Do([&] { return served.server().Summary().connections; }), 0);
}

TEST(ForeignConnection, LeavesClientsOfTheStoreAlone) {
  ServedStore served;
  served.loop().Do([&] {
    served.server().OnForeignConnection('d', [](const UniqueFd&, const std::string&) {});
  });
  auto store = *TcpStore::Connect(served.endpoint(), Soon());
  EXPECT_EQ(*store->Add("n", 1, Soon()), 1);
}

TEST(ForeignConnection, CountsAmongTheConnectionsThatTheServerHas) {
  StoreServerLimits limits;
  limits.max_connections = 1;
  ServedStore served(limits);
  std::vector<UniqueFd> kept;
  std::promise<Error> exhausted;
  served.loop().Do([&] {
    served.server().OnForeignConnection(
        'd', [&](UniqueFd fd, const std::string&) { kept.push_back(std::move(fd)); },
        [&] { return kept.size(); });
    served.server().OnExhausted([&](const Error& error) { exhausted.set_value(error); });
  });
  auto foreign = *Stream::Connect(served.endpoint(), Soon());
  ASSERT_TRUE(foreign.Write("ddprun", Soon()).ok());
  const auto next = Stream::Connect(served.endpoint(), Soon());
  EXPECT_EQ(exhausted.get_future().get().page, "too-many-connections");
  served.Stop();
}

TEST(ForeignConnection, AClientThatNamesARefusedKeyIsClosedAndTold) {
  ServedStore served;
  std::promise<std::string> peer;
  served.loop().Do([&] {
    served.server().RefuseKeys("/torch.rendezvous.",
                               [&](const std::string& who) { peer.set_value(who); });
  });
  auto store = *TcpStore::Connect(served.endpoint(), Soon());
  EXPECT_EQ(*store->Add("n", 1, Soon()), 1);
  EXPECT_FALSE(store->Add("torch.rendezvous.none", 1, Soon()).has_value());
  EXPECT_TRUE(peer.get_future().get().starts_with("127.0.0.1:"));
}

}  // namespace
}  // namespace ddprun::rendezvous

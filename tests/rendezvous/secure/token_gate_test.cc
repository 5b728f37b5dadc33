// A store and a coordinator behind a gate, and clients that may come in or not.
#include "rendezvous/secure/token_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <vector>

#include "rendezvous/elastic/coordinator.h"
#include "rendezvous/net/async_connect.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_door.h"
#include "rendezvous/store/tcp_store.h"
#include "tests/rendezvous/loop_thread.h"

namespace ddprun::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<Gate> GateOf(char digit) {
  return MakeTokenGate(*Token::FromText(std::string(64, digit)));
}

// A store behind the gate of token 7, or of none.
class Guarded {
 public:
  explicit Guarded(std::shared_ptr<Gate> gate, StoreServerLimits limits = {}) : served_(limits) {
    served_.loop().Do([&] {
      served_.server().Protect(
          {.gate = std::move(gate), .on_refused = [this](const std::string& line) {
             const std::scoped_lock lock(mutex_);
             lines_.push_back(line);
           }});
    });
  }

  // Connects as an agent does and asks for the sum of a counter.
  Result<Reply> Ask(std::shared_ptr<Gate> gate, std::chrono::milliseconds time) {
    std::promise<Result<Reply>> promise;
    std::unique_ptr<StoreConnection> connection;
    const HostPort endpoint = served_.endpoint();
    served_.loop().Do([&] {
      connection = std::make_unique<StoreConnection>(served_.loop().io(), endpoint, std::move(gate),
                                                     DeadlineAfter(time));
      Request add = KeyRequest(Op::kAdd, "/n");
      add.number = 1;
      connection->Call(std::move(add), [&](Result<Reply> reply) { promise.set_value(reply); });
    });
    Result<Reply> reply = promise.get_future().get();
    served_.loop().Do([&] { connection.reset(); });
    return reply;
  }

  std::vector<std::string> lines() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }
  // Waits until a refusal has been reported.
  void AwaitLine() {
    while (lines().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ServedStore& served() { return served_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  ServedStore served_;
};

constexpr std::chrono::milliseconds kLong{20'000};

TEST(TokenGate, LetsInAnAgentOfTheSameToken) {
  Guarded guarded(GateOf('7'));
  const auto reply = guarded.Ask(GateOf('7'), kLong);
  ASSERT_TRUE(reply.has_value()) << reply.error().what;
  EXPECT_EQ(reply->number, 1);
  EXPECT_TRUE(guarded.lines().empty());
}

TEST(TokenGate, RefusesAnotherTokenForGoodOnBothSides) {
  Guarded guarded(GateOf('7'));
  const auto reply = guarded.Ask(GateOf('8'), kLong);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().title, "ANOTHER TOKEN");
  EXPECT_EQ(reply.error().where, ToString(guarded.served().endpoint()));
  guarded.AwaitLine();
  EXPECT_THAT(guarded.lines(), ElementsAre(HasSubstr("it has another token")));
}

TEST(TokenGate, AnAgentWithATokenTrustsNoStoreWithoutOne) {
  Guarded guarded(nullptr);
  const auto reply = guarded.Ask(GateOf('7'), kLong);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().title, "NO TOKEN THERE");
  guarded.AwaitLine();
  EXPECT_THAT(guarded.lines(), ElementsAre(HasSubstr("has a token, and this node has none")));
}

TEST(TokenGate, ReportsOneRefusalOfAKind) {
  Guarded guarded(GateOf('7'));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(guarded.Ask(GateOf('8'), kLong).has_value());
  guarded.AwaitLine();
  EXPECT_EQ(guarded.lines().size(), 1);
}

TEST(TokenGate, ProcessesOfThisMachineNeedNoToken) {
  Guarded guarded(GateOf('7'));
  auto store = *TcpStore::Connect(guarded.served().endpoint(), Soon());
  EXPECT_EQ(*store->Add("n", 1, Soon()), 1);
}

// A worker is no agent: it must not speak for a node.
TEST(TokenGate, NobodySpeaksToTheCoordinatorWithoutTheToken) {
  Guarded guarded(GateOf('7'));
  std::unique_ptr<Coordinator> coordinator;
  guarded.served().loop().Do([&] {
    coordinator = std::make_unique<Coordinator>(guarded.served().loop().io(), CoordinatorOptions());
    coordinator->ServeOn(guarded.served().server());
  });
  auto stream = *Stream::Connect(guarded.served().endpoint(), Soon());
  ASSERT_TRUE(stream.Write("ddprun\n", Soon()).ok());
  std::string heard(200, '\0');
  heard.resize(*stream.ReadSome(std::span(heard.data(), heard.size()), Soon()));
  EXPECT_EQ(heard, "this port wants a token: set DDPRUN_TOKEN_FILE\n");
  EXPECT_EQ(guarded.served().loop().Do([&] { return coordinator->num_nodes(); }), 0);
  guarded.served().loop().Do([&] { coordinator.reset(); });
}

TEST(TokenGate, AfterTheGateTheConnectionIsAsAnyOther) {
  Guarded guarded(GateOf('7'));
  std::promise<std::string> received;
  guarded.served().loop().Do([&] {
    guarded.served().server().OnForeignConnection(
        'd', [&](const UniqueFd&, std::string text) { received.set_value(std::move(text)); });
  });
  std::unique_ptr<AsyncConnect> connect;
  const HostPort endpoint = guarded.served().endpoint();
  guarded.served().loop().Do([&] {
    connect = std::make_unique<AsyncConnect>(guarded.served().loop().io(), endpoint, GateOf('7'),
                                             [](Result<UniqueFd> fd) {
                                               ASSERT_TRUE(fd.has_value());
                                               ASSERT_EQ(::send(fd->get(), "ddprun", 6, 0), 6);
                                             });
  });
  EXPECT_EQ(received.get_future().get(), "ddprun");
  guarded.served().loop().Do([&] { connect.reset(); });
}

TEST(TokenGate, KnowsTheAddressesFromWhichSomebodyHasPassed) {
  const auto gate = GateOf('7');
  const auto loopback = asio::ip::make_address("127.0.0.1");
  Guarded guarded(gate);
  const auto knows = [&] {
    return guarded.served().loop().Do([&] { return gate->Knows(loopback); });
  };
  EXPECT_FALSE(knows());
  EXPECT_FALSE(guarded.Ask(GateOf('8'), kLong).has_value());
  EXPECT_FALSE(knows());
  EXPECT_TRUE(guarded.Ask(GateOf('7'), kLong).has_value());
  EXPECT_TRUE(knows());
}

// The gate of another machine's clients, which a test cannot have by loopback.
TEST(StoreDoor, StopsClientsOfUnknownMachines) {
  asio::io_context io;
  const auto gate = GateOf('7');
  StoreDoor door(io, [](const UniqueFd&) {});
  const auto stops = [&](char first_byte, const char* peer) {
    return door.Stops(first_byte, {asio::ip::make_address("192.0.2.9"), 29500},
                      {asio::ip::make_address(peer), 40000});
  };
  EXPECT_FALSE(stops('\0', "192.0.2.1"));
  EXPECT_FALSE(stops('d', "192.0.2.1"));
  EXPECT_TRUE(stops('D', "192.0.2.1"));
  door.Protect({.gate = gate});
  EXPECT_TRUE(stops('\0', "192.0.2.1"));
  EXPECT_TRUE(stops('d', "192.0.2.1"));
  EXPECT_TRUE(stops('D', "192.0.2.1"));
  EXPECT_FALSE(stops('\0', "127.0.0.1"));
  EXPECT_TRUE(stops('d', "127.0.0.1"));
}

// 500 connections that begin a handshake and never go on: they count, they end, and the store
// works.
TEST(StoreDoor, HalfOpenHandshakesCountAndEnd) {
  StoreServerLimits limits;
  limits.max_connections = 520;
  Guarded guarded(GateOf('7'), limits);
  std::vector<Stream> held;
  for (int i = 0; i < 500; ++i) {
    held.push_back(*Stream::Connect(guarded.served().endpoint(), Soon()));
    ASSERT_TRUE(held.back().Write("DDPRUN", Soon()).ok());
  }
  EXPECT_TRUE(guarded.Ask(GateOf('7'), kLong).has_value());
  for (Stream& stream : held) {
    char byte;
    EXPECT_FALSE(stream.ReadSome(std::span(&byte, 1), Soon()).has_value());
  }
  EXPECT_THAT(guarded.lines(), ElementsAre(HasSubstr("began a handshake and did not end it")));
}

TEST(StoreDoor, AServerMayEndInTheMiddleOfAHandshake) {
  Guarded guarded(GateOf('7'));
  auto stream = *Stream::Connect(guarded.served().endpoint(), Soon());
  ASSERT_TRUE(stream.Write("DDPRUN", Soon()).ok());
  guarded.served().loop().Do([] {});
  guarded.served().Stop();
  char byte;
  EXPECT_FALSE(stream.ReadSome(std::span(&byte, 1), Soon()).has_value());
}

// As torchrun's node 0: its store closes a connection that does not begin as a client's.
TEST(TokenGate, AStoreThatKnowsNoTokensIsTriedUntilTheDeadlineAndTheReasonIsSaid) {
  LoopThread loop;
  const auto loopback = asio::ip::make_address("127.0.0.1");
  const Listeners listeners = *ListenOn(std::span(&loopback, 1), 0);
  std::promise<Result<Reply>> promise;
  std::unique_ptr<StoreConnection> connection;
  loop.Do([&] {
    connection = std::make_unique<StoreConnection>(loop.io(), HostPort{"127.0.0.1", listeners.port},
                                                   GateOf('7'),
                                                   DeadlineAfter(std::chrono::milliseconds(500)));
    connection->Call(Request(), [&](Result<Reply> reply) { promise.set_value(std::move(reply)); });
  });
  auto answer = promise.get_future();
  while (answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    ::close(::accept(listeners.fds[0].get(), nullptr, nullptr));
  }
  EXPECT_THAT(answer.get().error().what, HasSubstr("does not know ddprun's token, as torchrun"));
  loop.Do([&] { connection.reset(); });
}

TEST(AsyncConnect, MayEndInTheMiddleOfAHandshake) {
  LoopThread loop;
  // Listens and never answers.
  const auto loopback = asio::ip::make_address("127.0.0.1");
  const Listeners silent = *ListenOn(std::span(&loopback, 1), 0);
  std::unique_ptr<AsyncConnect> connect;
  loop.Do([&] {
    connect =
        std::make_unique<AsyncConnect>(loop.io(), HostPort{"127.0.0.1", silent.port}, GateOf('7'),
                                       [](const Result<UniqueFd>&) { ADD_FAILURE(); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  loop.Do([&] { connect.reset(); });
  loop.Do([] {});
}

}  // namespace
}  // namespace ddprun::rendezvous

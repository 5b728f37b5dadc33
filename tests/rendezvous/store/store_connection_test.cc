#include "rendezvous/store/store_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/store/tcp_store.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/unused_port.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Request Add(const std::string& key) {
  Request request;
  request.op = Op::kAdd;
  request.key = key;
  request.number = 1;
  return request;
}

TEST(StoreConnection, AnswersCallsInTheirOrder) {
  ServedStore served;
  asio::io_context io;
  StoreConnection connection(io, served.endpoint(), nullptr, Soon());
  std::vector<int64_t> sums;
  for (int i = 0; i < 3; ++i) {
    connection.Call(Add("/n"), [&](Result<Reply> reply) { sums.push_back(reply->number); });
  }
  while (sums.size() < 3) io.run_one();
  EXPECT_THAT(sums, testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(connection.connected());
}

TEST(StoreConnection, ASetIsDoneWhenItsHandlerIsCalled) {
  ServedStore served;
  asio::io_context io;
  StoreConnection connection(io, served.endpoint(), nullptr, Soon());
  Request set;
  set.op = Op::kSet;
  set.key = "/k";
  bool done = false;
  connection.Call(set, [&](const Result<Reply>& reply) { done = reply.has_value(); });
  while (!done) io.run_one();
  EXPECT_EQ(served.loop().Do([&] { return served.server().Summary().keys; }), 1);
}

TEST(StoreConnection, KeepsTryingUntilTheServerIsThere) {
  const HostPort endpoint{"127.0.0.1", UnusedPort()};
  asio::io_context io;
  StoreConnection connection(io, endpoint, nullptr, Soon());
  int64_t sum = 0;
  connection.Call(Add("/n"), [&](Result<Reply> reply) { sum = reply->number; });
  while (connection.last_problem().empty()) io.run_one();
  EXPECT_EQ(connection.last_problem(), "Connection refused");
  EXPECT_FALSE(connection.connected());
  const auto server = *StoreServer::Listen(io, asio::ip::address_v4::loopback(), endpoint.port);
  while (sum == 0) io.run_one();
  EXPECT_EQ(sum, 1);
}

TEST(StoreConnection, GivesUpAtTheDeadlineAndSaysWhy) {
  const HostPort endpoint{"127.0.0.1", UnusedPort()};
  asio::io_context io;
  StoreConnection connection(io, endpoint, nullptr, DeadlineAfter(milliseconds(500)));
  std::vector<Error> errors;
  const auto keep = [&](const Result<Reply>& reply) { errors.push_back(reply.error()); };
  connection.Call(Add("/n"), keep);
  io.run();
  connection.Call(Add("/n"), keep);
  io.restart();
  io.run();
  ASSERT_EQ(errors.size(), 2);
  EXPECT_EQ(errors[0].code, Code::kRendezvous);
  EXPECT_THAT(errors[0].what, HasSubstr("Connection refused"));
  EXPECT_EQ(errors[1].page, errors[0].page);
}

TEST(StoreConnection, TellsEveryOpenCallThatTheServerWentAway) {
  ServedStore served;
  asio::io_context io;
  StoreConnection connection(io, served.endpoint(), nullptr, Soon());
  Request wait;
  wait.op = Op::kWait;
  wait.keys = {"/never"};
  int failures = 0;
  const auto count = [&](const Result<Reply>& reply) { failures += reply.has_value() ? 0 : 1; };
  connection.Call(wait, count);
  connection.Call(Add("/n"), count);
  while (!connection.connected()) io.run_one();
  served.Stop();
  io.run();
  EXPECT_EQ(failures, 2);
}

TEST(StoreConnection, CanBeDestroyedByItsOwnHandler) {
  ServedStore served;
  asio::io_context io;
  auto connection = std::make_unique<StoreConnection>(io, served.endpoint(), nullptr, Soon());
  connection->Call(Add("/n"), [&](const Result<Reply>&) { connection.reset(); });
  connection->Call(Add("/n"), [&](const Result<Reply>&) { FAIL() << "dropped with its store"; });
  io.run();
  EXPECT_EQ(connection, nullptr);
}

TEST(StoreWatch, CallsBackWithTheValue) {
  ServedStore served;
  asio::io_context io;
  std::string value;
  StoreWatch watch(io, served.endpoint(), nullptr, Soon(), "/k",
                   [&](Result<std::string> got) { value = *got; });
  ASSERT_TRUE((*TcpStore::Connect(served.endpoint(), Soon()))->Set("k", "v", Soon()).ok());
  while (value.empty()) io.run_one();
  EXPECT_EQ(value, "v");
}

TEST(StoreWatch, CallsBackWhenTheStoreGoesAway) {
  ServedStore served;
  asio::io_context io;
  std::optional<Error> error;
  StoreWatch watch(io, served.endpoint(), nullptr, Soon(), "/k",
                   [&](const Result<std::string>& got) { error = got.error(); });
  while (served.loop().Do([&] { return served.server().ParkedWaits().empty(); })) {
    io.poll();
  }
  served.Stop();
  io.run();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->page, "store-went-away");
}

TEST(StoreWatch, DropsItsHandlerWhenItIsDestroyed) {
  ServedStore served;
  asio::io_context io;
  {
    StoreWatch watch(io, served.endpoint(), nullptr, Soon(), "/k",
                     [](const Result<std::string>&) { FAIL(); });
    io.poll();
  }
  served.Stop();
  io.run();
}

}  // namespace
}  // namespace ddprun::rendezvous

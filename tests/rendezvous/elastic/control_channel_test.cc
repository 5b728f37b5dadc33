#include "rendezvous/elastic/control_channel.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <optional>

#include <asio/ip/tcp.hpp>
#include <nlohmann/json.hpp>

namespace ddprun::rendezvous {
namespace {

using asio::ip::tcp;

TEST(ControlChannel, HangsUpOnAnEndThatDoesNotRead) {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::socket deaf(io);
  deaf.connect(acceptor.local_endpoint());
  tcp::socket accepted = acceptor.accept();
  accepted.non_blocking(true);
  std::optional<std::string> closed;
  ControlChannel channel(
      io, ControlChannel::End::kCoordinator, UniqueFd(accepted.release()), "",
      {.on_message = [](const nlohmann::json&) { FAIL(); },
       .on_closed = [&](const std::string& reason, ChannelEnd) { closed = reason; }});
  const nlohmann::json message = {{"line", std::string(100'000, 'x')}};
  for (int i = 0; i < 1000 && !closed; ++i) {
    channel.Send(message);
    io.poll();
  }
  EXPECT_EQ(closed, "it does not read");
}

TEST(ControlChannel, TheKernelIsAsPatientAsTheUserWants) {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::socket other(io);
  other.connect(acceptor.local_endpoint());
  const int fd = acceptor.accept().release();
  ControlChannel channel(io, ControlChannel::End::kNode, UniqueFd(fd), "", {});
  channel.StartKeepAlive({.interval = std::chrono::seconds(60), .max_attempts = 5});
  int value = 0;
  socklen_t size = sizeof value;
  ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size), 0);
  EXPECT_EQ(value, 300'000);
  int idle = 0, pause = 0, probes = 0;
  ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size), 0);
  ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, &size), 0);
  ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, &size), 0);
  EXPECT_EQ(idle + pause * probes, 300);
}

}  // namespace
}  // namespace ddprun::rendezvous

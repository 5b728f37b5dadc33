#include "rendezvous/elastic/control_channel.h"

#include <gtest/gtest.h>

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
  ControlChannel channel(io, ControlChannel::End::kCoordinator, UniqueFd(accepted.release()), "",
                         {.on_message = [](const nlohmann::json&) { FAIL(); },
                          .on_closed = [&](const std::string& reason, bool) { closed = reason; }});
  const nlohmann::json message = {{"line", std::string(100'000, 'x')}};
  for (int i = 0; i < 1000 && !closed; ++i) {
    channel.Send(message);
    io.poll();
  }
  EXPECT_EQ(closed, "it does not read");
}

}  // namespace
}  // namespace ddprun::rendezvous

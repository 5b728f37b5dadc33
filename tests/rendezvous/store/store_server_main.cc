// A store server for tests that drive it from another program: prints its port, serves until its
// standard input ends, so that it cannot outlive the test.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "rendezvous/store/store_server.h"

int main(int argc, char** argv) {
  asio::io_context io;
  const auto port = static_cast<uint16_t>(argc > 1 ? std::stoi(argv[1]) : 0);
  auto server = ddprun::rendezvous::StoreServer::Listen(io, asio::ip::address_v4::loopback(), port);
  if (!server.has_value()) {
    std::fputs(ddprun::Render(server.error()).c_str(), stderr);
    return ddprun::ExitStatus(server.error().code);
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  asio::posix::stream_descriptor input(io, dup(STDIN_FILENO));
  std::array<char, 64> ignored{};
  input.async_read_some(asio::buffer(ignored),
                        [&io](const asio::error_code&, size_t) { io.stop(); });
  io.run();
  return 0;
}

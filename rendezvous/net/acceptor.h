// Accepts TCP connections for an event loop, and waits calmly while there is no room for more.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "base/unique_fd.h"
#include "rendezvous/net/listener.h"

namespace ddprun::rendezvous {

// Loop thread only. Used through a shared_ptr, which its own pending handlers keep too.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  struct Handlers {
    std::function<void(UniqueFd)> on_connection;  // non-blocking
    // Asked before each one; false leaves it in the kernel's queue for a while.
    std::function<bool()> has_room;
    // Once in the acceptor's life: `problem` is an errno, or 0 when there was no room.
    std::function<void(int problem)> on_exhausted;
  };

  Acceptor(asio::io_context& io, Listeners listeners, Handlers handlers);

  void Start();
  // Closes the sockets; no handler is called any more.
  void Stop();

 private:
  struct Socket {
    asio::posix::stream_descriptor listener;
    asio::steady_timer pause;
  };

  void Arm(Socket& socket);
  void Accept(Socket& socket);
  void Pause(Socket& socket, int problem);

  std::vector<std::unique_ptr<Socket>> sockets_;
  Handlers handlers_;
  bool said_ = false;
  bool stopped_ = false;
};

}  // namespace ddprun::rendezvous

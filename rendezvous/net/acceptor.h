// Accepts TCP connections for an event loop, and pauses while there is no room for more.
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

// Use it on the loop thread only, through a shared_ptr. Pending handlers hold it, too.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  struct Handlers {
    std::function<void(UniqueFd)> on_connection;  // non-blocking
    // Asked before each connection; false leaves it in the kernel's queue for a while.
    std::function<bool()> has_room;
    // Called once in the acceptor's life. `problem` is an errno; 0 means that has_room() was false.
    std::function<void(int problem)> on_exhausted;
  };

  Acceptor(asio::io_context& io, Listeners listeners, Handlers handlers);

  void Start();
  // Closes the sockets. From now on no handler is called.
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
  bool reported_ = false;
  bool stopped_ = false;
};

}  // namespace ddprun::rendezvous

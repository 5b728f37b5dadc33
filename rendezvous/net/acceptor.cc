#include "rendezvous/net/acceptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;

// Without a pause the loop would spin, because the kernel's queue stays readable.
constexpr std::chrono::milliseconds kPause{100};
// Most connections accepted in a row, so that other handlers get their turn.
constexpr int kBatch = 256;

bool IsExhaustion(int problem) {
  return problem == EMFILE || problem == ENFILE || problem == ENOBUFS || problem == ENOMEM;
}

}  // namespace

Acceptor::Acceptor(asio::io_context& io, Listeners listeners, Handlers handlers)
    : handlers_(std::move(handlers)) {
  for (UniqueFd& fd : listeners.fds) {
    sockets_.push_back(std::make_unique<Socket>(
        Socket{stream_descriptor(io, fd.release()), asio::steady_timer(io)}));
  }
}

void Acceptor::Start() {
  for (const auto& socket : sockets_) Arm(*socket);
}

void Acceptor::Stop() {
  stopped_ = true;
  handlers_ = {};
  asio::error_code ignored;
  for (const auto& socket : sockets_) {
    socket->listener.close(ignored);
    socket->pause.cancel();
  }
}

void Acceptor::Arm(Socket& socket) {
  socket.listener.async_wait(stream_descriptor::wait_read,
                             [self = shared_from_this(), &socket](const asio::error_code& error) {
                               if (!error && !self->stopped_) self->Accept(socket);
                             });
}

void Acceptor::Accept(Socket& socket) {
  for (int i = 0; i < kBatch; ++i) {
    if (!handlers_.has_room()) return Pause(socket, 0);
    UniqueFd fd(
        accept4(socket.listener.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      handlers_.on_connection(std::move(fd));
      continue;
    }
    const int problem = errno;
    if (IsExhaustion(problem)) return Pause(socket, problem);
    if (problem == EAGAIN) break;
    // Any other error concerns one connection, which ended in the queue.
  }
  Arm(socket);
}

void Acceptor::Pause(Socket& socket, int problem) {
  socket.pause.expires_after(kPause);
  socket.pause.async_wait([self = shared_from_this(), &socket](const asio::error_code& error) {
    if (!error && !self->stopped_) self->Arm(socket);
  });
  // Copies the handler, because it may destroy the server.
  const auto say = handlers_.on_exhausted;
  if (!std::exchange(reported_, true) && say) say(problem);
}

}  // namespace ddprun::rendezvous

#include "rendezvous/net/connect.h"

#include <sys/socket.h>

#include <cerrno>

#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

int BeginConnect(const asio::ip::tcp::endpoint& endpoint, UniqueFd& connecting) {
  UniqueFd fd(socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  TuneConnection(fd.get());
  const bool begun = connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) ==
                         0 ||
                     errno == EINPROGRESS || errno == EINTR;
  if (!begun) return errno;
  connecting = std::move(fd);
  return 0;
}

int EndConnect(int fd) {
  int failure = 0;
  socklen_t size = sizeof failure;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0) return errno;
  return failure == 0 && ConnectedToItself(fd) ? ECONNREFUSED : failure;
}

}  // namespace ddprun::rendezvous

#include "rendezvous/net/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include <asio/ip/tcp.hpp>

#include "rendezvous/net/address.h"
#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

namespace {

// The kernel lowers it to net.core.somaxconn. When the queue overflows, thousands of ranks that
// start together are refused.
constexpr int kBacklog = 65535;
// A free port of one address may be taken on another one.
constexpr int kPortAttempts = 16;

Error CannotListen(const asio::ip::address& address, uint16_t port, int problem) {
  const std::string place = ToString(HostPort{address.to_string(), port});
  Error error;
  error.where = place;
  error.what = "The store cannot listen on " + place + ": " + ErrnoText(problem) + " (errno " +
               std::to_string(problem) + ").";
  if (problem == EADDRINUSE) {
    error.code = Code::kAddressInUse;
    error.title = "PORT TAKEN";
    error.hint =
        "Another program on this machine, perhaps another job, has port " + std::to_string(port) +
        ".\nChoose another one with --master_port, or, on a single node, leave it out: then a "
        "free one is taken.";
    error.page = "port-taken";
  } else {
    error.code = Code::kCannotListen;
    error.title = "CANNOT LISTEN";
    error.hint = problem == EACCES ? "Ports below 1024 need privileges: choose a higher one."
                                   : "Node 0 must have the address: check --master_addr.";
    error.page = "cannot-listen";
  }
  return error;
}

// 0 and a listening descriptor, or the errno.
int Open(const asio::ip::address& address, uint16_t port, UniqueFd& listening) {
  const asio::ip::tcp::endpoint endpoint(address, port);
  UniqueFd fd(socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.is_v6()) {
    const int only_v6 = address.is_unspecified() ? 0 : 1;
    (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  if (bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) return errno;
  if (listen(fd.get(), kBacklog) != 0) return errno;
  listening = std::move(fd);
  return 0;
}

bool NotOurs(int problem) {
  return problem == EADDRNOTAVAIL || problem == EAFNOSUPPORT;
}

Result<Listeners> ListenOnce(std::span<const asio::ip::address> addresses, uint16_t port) {
  Listeners listeners;
  listeners.port = port;
  Error missing;
  for (const asio::ip::address& address : addresses) {
    UniqueFd fd;
    const int problem = Open(address, listeners.port, fd);
    if (NotOurs(problem)) {
      missing = CannotListen(address, port, problem);
      continue;
    }
    if (problem != 0) return CannotListen(address, listeners.port, problem);
    if (listeners.port == 0) listeners.port = EndOf(fd.get(), getsockname).port;
    listeners.fds.push_back(std::move(fd));
  }
  if (listeners.fds.empty()) return missing;
  return listeners;
}

}  // namespace

Result<Listeners> ListenOn(std::span<const asio::ip::address> addresses, uint16_t port) {
  for (int attempt = 1;; ++attempt) {
    auto listeners = ListenOnce(addresses, port);
    const bool again = !listeners.has_value() && port == 0 && attempt < kPortAttempts &&
                       listeners.error().code == Code::kAddressInUse;
    if (!again) return listeners;
  }
}

}  // namespace ddprun::rendezvous

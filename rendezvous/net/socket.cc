#include "rendezvous/net/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include <asio/ip/tcp.hpp>

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

// The first pause is short, because the server of a new job appears within milliseconds.
constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{1000};
constexpr milliseconds kLongestAttempt{3000};

Error Lost(const HostPort& peer, const std::string& reason) {
  return {.title = "CONNECTION LOST",
          .where = ToString(peer),
          .what = "The connection to " + ToString(peer) + " ended: " + reason + ".",
          .hint = "The process there has probably stopped: its own output says why.",
          .page = "connection-lost"};
}

Error TimedOut(const HostPort& peer) {
  return {.code = Code::kDeadlineExceeded,
          .title = "NO ANSWER",
          .where = ToString(peer),
          .what = ToString(peer) + " did not answer before the deadline.",
          .hint = "The process there is stuck or its host cannot be reached.",
          .page = "no-answer"};
}

// Rounds up, so that a deadline in the future never makes a busy loop.
int PollTimeout(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

// Returns true if `fd` is ready or has failed, which the next call on it reports; false at the
// deadline.
bool Poll(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, PollTimeout(deadline));
    if (ready > 0) return true;
    if (ready == 0 && std::chrono::steady_clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return true;
  }
}

// Returns whether a socket is connected to itself. TCP does this if no program listens at the port
// and the kernel gives clients ports from this range, so repeated attempts will meet it.
bool ConnectedToItself(int fd) {
  const SocketEnd own = EndOf(fd, getsockname);
  return own.port != 0 && own == EndOf(fd, getpeername);
}

// Returns 0 and sets `connected`, or returns the errno.
int ConnectTo(const asio::ip::address& address,
              uint16_t port,
              Deadline deadline,
              UniqueFd& connected) {
  UniqueFd fd;
  if (const int failure = BeginConnect(address, port, fd); failure != 0) return failure;
  if (!Poll(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
  const int failure = EndConnect(fd.get());
  if (failure == 0) connected = std::move(fd);
  return failure;
}

// Tries each address of the peer once. Returns 0 or the last errno.
int ConnectToAny(const std::vector<asio::ip::address>& addresses,
                 uint16_t port,
                 Deadline deadline,
                 UniqueFd& connected) {
  int failure = 0;
  for (const asio::ip::address& address : addresses) {
    // Limits each attempt, so that an address that drops packets leaves time for the others.
    const Deadline share = std::min(deadline, DeadlineAfter(kLongestAttempt));
    failure = ConnectTo(address, port, addresses.size() > 1 ? share : deadline, connected);
    if (failure == 0) break;
  }
  return failure;
}

Error CannotConnect(const HostPort& peer, const std::string& reason) {
  return {.code = Code::kRendezvous,
          .title = "CANNOT CONNECT",
          .where = ToString(peer),
          .what = "No connection to " + ToString(peer) + " before the deadline: " + reason + ".",
          .hint =
              "Check that the process which hosts this address is running, that host and port are "
              "right,\nand that no firewall is between the nodes.",
          .page = "cannot-connect"};
}

}  // namespace

void TuneConnection(int fd, milliseconds patience) {
  const auto set = [fd](int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  // The kernel takes whole seconds, no more than 32767 of them, and three probes.
  constexpr milliseconds kMost = std::chrono::hours(20);
  const auto ms = static_cast<int>(std::clamp(patience, milliseconds(5'000), kMost).count());
  set(IPPROTO_TCP, TCP_KEEPINTVL, ms / 5'000);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2 * (ms / 5'000));
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  // Sets the same limit for sent data that is not acknowledged, where keepalive does not apply.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, ms);
}

SocketEnd EndOf(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  asio::ip::tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (name(fd, endpoint.data(), &size) != 0) return {};
  endpoint.resize(size);
  const asio::ip::address address = endpoint.address();
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return {mapped ? make_address_v4(asio::ip::v4_mapped, address.to_v6()) : address,
          endpoint.port()};
}

int BeginConnect(const asio::ip::address& address, uint16_t port, UniqueFd& connecting) {
  const asio::ip::tcp::endpoint endpoint(address, port);
  UniqueFd fd(socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  TuneConnection(fd.get());
  const bool begun =
      connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0 ||
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

Result<Stream> Stream::Connect(const HostPort& peer, Deadline deadline) {
  milliseconds pause = kFirstPause;
  while (true) {
    std::vector<asio::ip::address> addresses = ResolveLocally(peer.host);
    std::string reason;
    if (addresses.empty()) {
      auto resolved = ResolveByNameServer(peer.host);
      if (!resolved.has_value())
        reason = resolved.error().what;
      else
        addresses = *std::move(resolved);
    }
    if (!addresses.empty()) {
      UniqueFd fd;
      const int failure = ConnectToAny(addresses, peer.port, deadline, fd);
      if (failure == 0) return Stream(std::move(fd), peer);
      reason = ErrnoText(failure);
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return CannotConnect(peer, reason);
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(pause, deadline - now));
    pause = std::min(pause * 3 / 2 + milliseconds(1), kLongestPause);
  }
}

std::string Stream::LocalAddress() const {
  const SocketEnd own = EndOf(fd_.get(), getsockname);
  return own.port == 0 ? "" : own.address.to_string();
}

Status Stream::Write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t written = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      if (!Poll(fd_.get(), POLLOUT, deadline)) return TimedOut(peer_);
    } else if (errno != EINTR) {
      return Lost(peer_, ErrnoText(errno));
    }
  }
  return {};
}

Result<size_t> Stream::ReadSome(std::span<char> buffer, Deadline deadline) {
  while (true) {
    const ssize_t count = recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) return static_cast<size_t>(count);
    if (count == 0) return Lost(peer_, "closed by the other side");
    if (errno == EAGAIN) {
      if (!Poll(fd_.get(), POLLIN, deadline)) return TimedOut(peer_);
    } else if (errno != EINTR) {
      return Lost(peer_, ErrnoText(errno));
    }
  }
}

}  // namespace ddprun::rendezvous

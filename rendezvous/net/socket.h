// TCP sockets: connecting one in two steps, and Stream, a client connection that blocks.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline DeadlineAfter(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() + timeout;
}

// NODELAY (requests are small and answered one by one), and keepalive such that a host which
// vanished is noticed in about `patience`. `fd` is a TCP socket; a failure is no error: the
// connection works without.
void TuneConnection(int fd, std::chrono::milliseconds patience = std::chrono::seconds(15));

struct SocketEnd {
  asio::ip::address address;  // of an IPv4 peer of a socket of both families, that of IPv4
  uint16_t port = 0;          // 0: not known, the connection is gone

  friend bool operator==(const SocketEnd&, const SocketEnd&) = default;
};

// `name`: getsockname or getpeername.
SocketEnd EndOf(int fd, int (*name)(int, sockaddr*, socklen_t*));

// Connecting without blocking. 0 and a non-blocking socket, tuned, that connects and becomes
// writable when that has ended; or the errno.
int BeginConnect(const asio::ip::address& address, uint16_t port, UniqueFd& connecting);

// How it ended: 0 or the errno.
int EndConnect(int fd);

// A blocking client connection whose every operation has a deadline. Used by workers, which have no
// event loop; one thread at a time.
class Stream {
 public:
  // Tries every address of the host, again and again with a growing pause, until one accepts or
  // the deadline passes. The last reason is in the error (kRendezvous).
  static Result<Stream> Connect(const HostPort& peer, Deadline deadline);

  // All bytes or an Error: kDeadlineExceeded, or kFailed when the peer closed or reset.
  Status Write(std::string_view bytes, Deadline deadline);

  // At least one byte, at most the buffer; errors as Write. REQUIRES: a buffer that is not empty.
  Result<size_t> ReadSome(std::span<char> buffer, Deadline deadline);

  const HostPort& peer() const { return peer_; }
  // This end's address, as a literal; empty if the connection is gone.
  std::string LocalAddress() const;

 private:
  Stream(UniqueFd fd, HostPort peer) : fd_(std::move(fd)), peer_(std::move(peer)) {}

  UniqueFd fd_;
  HostPort peer_;
};

}  // namespace ddprun::rendezvous

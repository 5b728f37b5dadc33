// TCP sockets: functions that connect one in two steps, and Stream, a blocking client connection.
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

// Sets NODELAY, because requests are small and answered one by one. Sets keepalive so that the
// kernel notices a lost host in about `patience`. Ignores failures, because the TCP socket `fd`
// works without these options.
void TuneConnection(int fd, std::chrono::milliseconds patience = std::chrono::seconds(15));

struct SocketEnd {
  asio::ip::address address;  // an IPv4 address on a socket of both families is stored as IPv4
  uint16_t port = 0;          // 0 means unknown, because the connection is gone

  friend bool operator==(const SocketEnd&, const SocketEnd&) = default;
};

// Returns this end or the peer's end of `fd`. `name` is getsockname or getpeername.
SocketEnd EndOf(int fd, int (*name)(int, sockaddr*, socklen_t*));

// Begins to connect and does not block. Returns 0 and sets `connecting` to a tuned, non-blocking
// socket, which becomes writable when the attempt has ended; or returns the errno.
int BeginConnect(const asio::ip::address& address, uint16_t port, UniqueFd& connecting);

// Returns how an attempt of BeginConnect() ended: 0 or the errno.
int EndConnect(int fd);

// A blocking client connection for workers, which have no event loop. Every operation has a
// deadline. Use it from one thread at a time.
class Stream {
 public:
  // Tries every address of the host, again and again with a growing pause, until one accepts or
  // the deadline passes. The error (kRendezvous) has the reason of the last failure.
  static Result<Stream> Connect(const HostPort& peer, Deadline deadline);

  // Writes all bytes. Error: kDeadlineExceeded, or kFailed if the peer closed the connection.
  Status Write(std::string_view bytes, Deadline deadline);

  // Reads at least one byte and at most the buffer. Errors: see Write(). REQUIRES: `buffer` is not
  // empty.
  Result<size_t> ReadSome(std::span<char> buffer, Deadline deadline);

  const HostPort& peer() const { return peer_; }
  // Returns this end's address as a literal; "" if the connection is gone.
  std::string LocalAddress() const;

 private:
  Stream(UniqueFd fd, HostPort peer) : fd_(std::move(fd)), peer_(std::move(peer)) {}

  UniqueFd fd_;
  HostPort peer_;
};

}  // namespace ddprun::rendezvous

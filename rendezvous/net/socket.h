// A blocking TCP client connection whose every operation has a deadline. Used by workers, which
// have no event loop; one thread at a time.
#pragma once

#include <chrono>
#include <span>
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
// vanished is noticed in about 15 s. `fd` is a TCP socket; a failure is no error: the connection
// works without.
void TuneConnection(int fd);

class Stream {
 public:
  // Tries every address of the host, again and again with a growing pause, until one accepts or
  // the deadline passes. The last reason is in the error (kRendezvous).
  static Result<Stream> Connect(const HostPort& peer, Deadline deadline);

  // Whole buffer or an Error: kDeadlineExceeded, or kFailed when the peer closed or reset.
  // After an Error the stream is of no more use.
  Status Write(std::string_view bytes, Deadline deadline);
  Status Read(std::span<char> buffer, Deadline deadline);

  // True once bytes (or the end) can be read, false when the deadline passed first.
  Result<bool> WaitReadable(Deadline deadline);

  const HostPort& peer() const { return peer_; }

 private:
  Stream(UniqueFd fd, HostPort peer) : fd_(std::move(fd)), peer_(std::move(peer)) {}

  UniqueFd fd_;
  HostPort peer_;
};

}  // namespace ddprun::rendezvous

// Connecting a TCP socket without blocking, in two steps.
#pragma once

#include <asio/ip/tcp.hpp>

#include "base/unique_fd.h"

namespace ddprun::rendezvous {

// 0 and a non-blocking socket, tuned, that connects and becomes writable when that has ended; or
// the errno.
int BeginConnect(const asio::ip::tcp::endpoint& endpoint, UniqueFd& connecting);

// How it ended: 0 or the errno.
int EndConnect(int fd);

}  // namespace ddprun::rendezvous

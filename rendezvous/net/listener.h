// Opens listening TCP sockets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <asio/ip/address.hpp>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::rendezvous {

struct Listeners {
  std::vector<UniqueFd> fds;  // non-blocking, one per address
  uint16_t port = 0;          // the same for all
};

// Listens on every address at `port`; 0 takes one that is free on all of them. "::" stands for all
// addresses of both families. Addresses that this machine does not have are left out if another
// one remains. kAddressInUse or kCannotListen otherwise.
Result<Listeners> ListenOn(std::span<const asio::ip::address> addresses, uint16_t port);

}  // namespace ddprun::rendezvous

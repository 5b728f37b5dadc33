// A free port, for nodes that must know it before it is opened.
#pragma once

#include <random>
#include <vector>

#include <asio/ip/address.hpp>

#include "rendezvous/net/listener.h"

namespace ddprun::rendezvous {

// It is below the range of ports that the kernel chooses, so that no other test gets it meanwhile.
inline uint16_t UnusedPort() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(20'000, 32'000);
  while (true) {
    const std::vector<asio::ip::address> loopback = {asio::ip::address_v4::loopback()};
    const auto listeners = ListenOn(loopback, static_cast<uint16_t>(ports(random)));
    if (listeners.has_value()) return listeners->port;
  }
}

}  // namespace ddprun::rendezvous

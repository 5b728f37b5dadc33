// A port on which nobody listens, for nodes that must know it before it is opened.
#pragma once

#include <random>
#include <vector>

#include <asio/ip/address.hpp>

#include "rendezvous/net/listener.h"

namespace ddprun::rendezvous {

// Below the range from which the kernel gives ports to clients and to those who ask for any, so
// that no other test takes it meanwhile.
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

// A free port, for nodes that must know it before it is opened.
#pragma once

#include <random>
#include <vector>

#include <asio/ip/address.hpp>

#include "rendezvous/net/listener.h"

namespace ddprun::rendezvous {

// It is below the range of ports that the kernel chooses, so that no other test gets it meanwhile.
// A process gets each port once: a test may ask for many before the first one is opened. The first
// port is random, so that two processes seldom get the same.
inline uint16_t UnusedPort() {
  constexpr uint16_t kFirst = 20'000;
  constexpr uint16_t kCount = 12'000;
  static uint32_t next = std::random_device()();
  while (true) {
    const std::vector<asio::ip::address> loopback = {asio::ip::address_v4::loopback()};
    const auto listeners = ListenOn(loopback, static_cast<uint16_t>(kFirst + next++ % kCount));
    if (listeners.has_value()) return listeners->port;
  }
}

}  // namespace ddprun::rendezvous

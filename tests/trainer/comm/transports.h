// Transports of ranks in one process, over loopback.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/comm/net/transport.h"

namespace ddprun::trainer {

// TCP, or UCX if DDPRUN_TRANSPORT says so: ctest runs these tests both ways.
inline Transport::Kind TestedKind() {
  const bool ucx = Environment::OfProcess().GetOr("DDPRUN_TRANSPORT", "") == "ucx";
  return ucx ? Transport::Kind::kUcx : Transport::Kind::kTcp;
}

inline std::unique_ptr<Transport> OpenTransport(int rank) {
  auto opened = Transport::Create(
      {.rank = rank, .kind = TestedKind(), .devices = {"lo"}, .own_address = "127.0.0.1"});
  if (!opened) throw std::runtime_error(opened.error().what);
  return *std::move(opened);
}

inline std::vector<std::shared_ptr<Transport>> ConnectedTransports(size_t size) {
  std::vector<std::shared_ptr<Transport>> transports;
  std::vector<std::string> addresses;
  for (size_t rank = 0; rank < size; ++rank) {
    transports.push_back(OpenTransport(static_cast<int>(rank)));
    addresses.push_back(transports.back()->address());
  }
  for (const auto& transport : transports) transport->SetPeers(addresses);
  return transports;
}

}  // namespace ddprun::trainer

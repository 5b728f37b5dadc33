#include "rendezvous/store_host.h"

#include <algorithm>

namespace ddprun::rendezvous {

std::vector<asio::ip::address> OwnAddresses(std::string_view host,
                                            std::span<const asio::ip::address> resolved,
                                            int nnodes) {
  const bool loopback_counts = nnodes == 1 || NamesLoopback(host);
  std::vector<asio::ip::address> own;
  for (const asio::ip::address& address : resolved) {
    if (IsOwnAddress(address) && (loopback_counts || !address.is_loopback())) {
      own.push_back(address);
    }
  }
  return own;
}

Result<std::unique_ptr<StoreServer>> ListenOnOwn(asio::io_context& io,
                                                 std::span<const asio::ip::address> addresses,
                                                 uint16_t port) {
  if (!addresses.empty()) return StoreServer::Listen(io, addresses, port);
  auto both_families = StoreServer::Listen(io, asio::ip::address_v6::any(), port);
  // A kernel without IPv6 has only IPv4.
  if (both_families.has_value() || both_families.error().code == Code::kAddressInUse) {
    return both_families;
  }
  return StoreServer::Listen(io, asio::ip::address_v4::any(), port);
}

std::string ExposureWarning(std::span<const asio::ip::address> addresses,
                            uint16_t port,
                            const Gate* gate) {
  if (gate != nullptr) return "";
  const auto outside =
      std::ranges::find_if(addresses, [](const auto& address) { return !address.is_loopback(); });
  if (!addresses.empty() && outside == addresses.end()) return "";
  const std::string place = addresses.empty() ? "port " + std::to_string(port) + " of this machine"
                                              : ToString(HostPort{outside->to_string(), port});
  return "warning: whoever reaches " + place +
         " can join its jobs and change what they keep there: only the network protects them, or a "
         "token (ddprun token)";
}

}  // namespace ddprun::rendezvous

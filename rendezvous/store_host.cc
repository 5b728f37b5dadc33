#include "rendezvous/store_host.h"

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
  // Without IPv6 in the kernel there is only the other one.
  if (both_families.has_value() || both_families.error().page == "port-taken") {
    return both_families;
  }
  return StoreServer::Listen(io, asio::ip::address_v4::any(), port);
}

}  // namespace ddprun::rendezvous

// Chooses the addresses on which a node hosts a job's store, and opens the store's server there.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/net/address.h"
#include "rendezvous/net/gate.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// Returns the addresses of `resolved` that are this machine's; empty means: listen on all. On
// several nodes, a loopback address counts only if `host` itself names loopback, because Debian's
// /etc/hosts maps a machine's own name to 127.0.1.1. Pure except that it reads the interfaces.
std::vector<asio::ip::address> OwnAddresses(std::string_view host,
                                            std::span<const asio::ip::address> resolved,
                                            int nnodes);

// Listens on `addresses`. If there are none, listens on all addresses of this machine.
Result<std::unique_ptr<StoreServer>> ListenOnOwn(asio::io_context& io,
                                                 std::span<const asio::ip::address> addresses,
                                                 uint16_t port);

// Returns a warning if other machines can reach the port and no gate checks who connects; otherwise
// "". `addresses` are the ones that ListenOnOwn() got.
std::string ExposureWarning(std::span<const asio::ip::address> addresses,
                            uint16_t port,
                            const Gate* gate);

}  // namespace ddprun::rendezvous

// Opens the store server of a job on the node that hosts it: on which addresses, and says why.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/net/address.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// Pure but for the look at this machine's interfaces. Those of `resolved` that are this
// machine's; empty: listen on all. On several nodes a loopback address does not count unless
// `host` itself says loopback: Debian's /etc/hosts maps a machine's own name to 127.0.1.1.
std::vector<asio::ip::address> OwnAddresses(std::string_view host,
                                            std::span<const asio::ip::address> resolved,
                                            int nnodes);

// Listens on `addresses`, or on all of the machine's when there are none.
Result<std::unique_ptr<StoreServer>> ListenOnOwn(asio::io_context& io,
                                                 std::span<const asio::ip::address> addresses,
                                                 uint16_t port);

// A line for the user where others than this machine reach the port, since the store asks nobody
// who he is; empty where they do not. `addresses` as of ListenOnOwn.
std::string ExposureWarning(std::span<const asio::ip::address> addresses, uint16_t port);

}  // namespace ddprun::rendezvous

#include "launcher/cli/network_interface.h"

#include <algorithm>

#include <asio/ip/network_v4.hpp>
#include <asio/ip/network_v6.hpp>

#include "launcher/cli/command_line.h"

namespace ddprun::launcher {

namespace {

using rendezvous::OwnAddress;

bool IsInNetwork(const asio::ip::address& address, const std::string& network) {
  asio::error_code bad;
  if (address.is_v4()) {
    const auto range = asio::ip::make_network_v4(network, bad);
    return !bad && asio::ip::make_network_v4(address.to_v4(), range.prefix_length()).canonical() ==
                       range.canonical();
  }
  const auto range = asio::ip::make_network_v6(network, bad);
  return !bad && asio::ip::make_network_v6(address.to_v6(), range.prefix_length()).canonical() ==
                     range.canonical();
}

// Less is better.
int RankOf(const OwnAddress& own) {
  const bool link_local = rendezvous::IsLinkLocal(own.address);
  return (own.up ? 0 : 4) + (link_local ? 2 : 0) + (own.address.is_v4() ? 0 : 1);
}

}  // namespace

Result<OwnAddress> FindInterface(const std::string& wanted,
                                 const std::string& host,
                                 std::span<const OwnAddress> own) {
  const bool network = wanted.find('/') != std::string::npos;
  const OwnAddress* best = nullptr;
  std::string all;
  for (const OwnAddress& entry : own) {
    all += "\n  " + entry.interface + "  " + entry.address.to_string() + (entry.up ? "" : "  down");
    const bool fits = network ? IsInNetwork(entry.address, wanted) : entry.interface == wanted;
    if (fits && (best == nullptr || RankOf(entry) < RankOf(*best))) best = &entry;
  }
  if (best != nullptr) return *best;
  return BadValue(
      "--network_interface",
      "--network_interface is \"" + wanted + "\"; on " + host + ", expected one of" + all,
      "Give a name of the first column, or a network that has the address of a line on "
      "each node, such as 10.1.0.0/16.");
}

void UseInterface(const std::string& name, Environment& env) {
  for (const auto& [variable, value] :
       {std::pair{"DDPRUN_NET_INTERFACE", name}, std::pair{"NCCL_SOCKET_IFNAME", "=" + name},
        std::pair{"GLOO_SOCKET_IFNAME", name}}) {
    if (!env.Get(variable)) env.Set(variable, value);
  }
}

}  // namespace ddprun::launcher

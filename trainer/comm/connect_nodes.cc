#include "trainer/comm/connect_nodes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <system_error>

#include <asio/io_context.hpp>
#include <asio/ip/udp.hpp>

#include "rendezvous/net/address.h"
#include "trainer/comm/probe_nodes.h"

namespace ddprun::trainer {

namespace {

// Returns the name of every port, such as "mlx5_0:1".
std::vector<std::string> RdmaDevices() {
  std::vector<std::string> names;
  std::error_code ignored;  // most machines have no such devices
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", ignored)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", ignored)) {
      names.push_back(device.path().filename().string() + ":" + port.path().filename().string());
    }
  }
  return names;
}

std::string InterfaceWith(const std::string& address) {
  for (const rendezvous::OwnAddress& own : rendezvous::ReadOwnAddresses()) {
    if (own.address.to_string() == address) return own.interface;
  }
  return "";
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

Error WrongNode(const RankInfo& info, int members) {
  return Error{.code = Code::kUsage,
               .title = "CONTRADICTORY NODES",
               .where = "rank " + std::to_string(info.rank),
               .what = "LOCAL_WORLD_SIZE says that " + std::to_string(info.local_world_size) +
                       " ranks are on this node; by their GROUP_RANK it is " +
                       std::to_string(members) + ".",
               .hint =
                   "Start the ranks with ddprun, torchrun or srun, or set GROUP_RANK to a "
                   "number of its own on each node.",
               .page = "contradictory-nodes"};
}

}  // namespace

std::vector<std::string> NetworkDevices(const Environment& environment,
                                        const std::string& master,
                                        const std::string& towards_store) {
  const std::string wanted = environment.GetOr("DDPRUN_NET_INTERFACE", "");
  if (!wanted.empty()) return Split(wanted);
  std::string interface = InterfaceWith(towards_store);
  // If this machine's own host name resolves to 127.0.1.1, the interface is lo, through which other
  // machines do not reach this one.
  const bool loopback = master == "localhost" || master == "::1" || master.starts_with("127.");
  if (interface.empty() || (interface == "lo" && !loopback)) return {};
  std::vector<std::string> devices = RdmaDevices();
  devices.push_back(std::move(interface));
  return devices;
}

std::string AddressTowards(const std::string& host) {
  asio::io_context io;
  asio::error_code error;
  // Connecting UDP chooses the route and sends nothing.
  const auto found = asio::ip::udp::resolver(io).resolve(host, "9", error);
  for (const auto& entry : found) {
    asio::ip::udp::socket socket(io);
    socket.connect(entry.endpoint(), error);
    if (!error) return socket.local_endpoint().address().to_string();
  }
  return "";
}

Result<ConnectedNodes> ConnectNodes(const Environment& environment,
                                    const RankInfo& info,
                                    const std::string& towards_store,
                                    const Exchange& exchange,
                                    std::chrono::nanoseconds spin,
                                    ProbeTime probes) {
  const std::string master = environment.GetOr("MASTER_ADDR", "127.0.0.1");
  Transport::Options options{.rank = info.rank, .spin = spin};
  options.devices = NetworkDevices(environment, master, towards_store);
  DDPRUN_ASSIGN(std::shared_ptr<Transport> transport, Transport::Create(options));

  const std::string own = std::to_string(info.node_rank) + " " + transport->address();
  std::vector<int> ranks(static_cast<size_t>(info.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto told = exchange("addresses", ranks, own);
  if (!told) return Error(told.error()).While("Waiting for the addresses of all ranks");

  ConnectedNodes connected;
  std::vector<std::string> addresses;
  for (const std::string& entry : *told) {
    const size_t space = std::min(entry.find(' '), entry.size());
    connected.node_of_rank.push_back(
        static_cast<int>(ParseInt(entry.substr(0, space)).value_or(0)));
    addresses.push_back(entry.substr(std::min(space + 1, entry.size())));
    connected.wire.peers.push_back(static_cast<int>(addresses.size()) - 1);
  }
  const auto members =
      std::count(connected.node_of_rank.begin(), connected.node_of_rank.end(), info.node_rank);
  if (members != info.local_world_size) return WrongNode(info, static_cast<int>(members));
  // One rank of each node probes for all: a firewall stands between nodes.
  std::map<int, int> first_ranks;
  for (const int rank : ranks) {
    first_ranks.emplace(connected.node_of_rank[static_cast<size_t>(rank)], rank);
  }
  if (probes && first_ranks[info.node_rank] == info.rank) {
    DDPRUN_TRY(ProbeNodes(environment, options.devices, towards_store, info.node_rank, first_ranks,
                          exchange, *probes));
  }
  transport->SetPeers(std::move(addresses));
  connected.wire.transport = std::move(transport);
  return connected;
}

}  // namespace ddprun::trainer

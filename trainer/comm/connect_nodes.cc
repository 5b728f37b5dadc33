#include "trainer/comm/connect_nodes.h"

#include <ifaddrs.h>
#include <netdb.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

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
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    const bool named =
        getnameinfo(entry->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
    if (named && address == text) return entry->ifa_name;
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

Result<ConnectedNodes> ConnectNodes(const Environment& environment,
                                    const RankInfo& info,
                                    int generation,
                                    rendezvous::TcpStore& store,
                                    std::chrono::nanoseconds spin,
                                    std::chrono::milliseconds timeout) {
  const std::string master = environment.GetOr("MASTER_ADDR", "127.0.0.1");
  Transport::Options options{.rank = info.rank, .spin = spin};
  options.devices = NetworkDevices(environment, master, store.LocalAddress());
  DDPRUN_ASSIGN(std::shared_ptr<Transport> transport, Transport::Create(options));

  const std::string prefix = StoreKey(environment, "addresses/" + std::to_string(generation)) + "/";
  const rendezvous::Deadline deadline = rendezvous::DeadlineAfter(timeout);
  const std::string own = std::to_string(info.node_rank) + " " + transport->address();
  DDPRUN_TRY(store.Set(prefix + std::to_string(info.rank), own, deadline));
  std::vector<std::string> keys;
  for (int rank = 0; rank < info.world_size; ++rank) {
    keys.push_back(prefix + std::to_string(rank));
  }
  Result<std::vector<std::string>> told = store.MultiGet(keys, deadline);
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
  const auto first = std::ranges::find(connected.node_of_rank, info.node_rank);
  if (first - connected.node_of_rank.begin() == info.rank) {
    const std::set<int> nodes(connected.node_of_rank.begin(), connected.node_of_rank.end());
    DDPRUN_TRY(ProbeNodes(environment, options.devices, info.node_rank,
                          {nodes.begin(), nodes.end()}, prefix, store, timeout));
  }
  transport->SetPeers(std::move(addresses));
  connected.wire.transport = std::move(transport);
  return connected;
}

}  // namespace ddprun::trainer

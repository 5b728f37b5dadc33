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

// Returns the address of the first device that has one, `wished` if it may be; "" if none has one.
std::string OwnAddressOn(const std::vector<std::string>& devices, const std::string& wished) {
  for (const std::string& device : devices) {
    const asio::ip::address own = rendezvous::AddressOf(device, wished);
    if (!own.is_unspecified()) return own.to_string();
  }
  return "";
}

// Returns the kind of transport that this rank would use.
Result<Transport::Kind> ChooseKind(const Environment& environment,
                                   const Transport::Options& options) {
  const std::string wanted = environment.GetOr("DDPRUN_TRANSPORT", "");
  if (!wanted.empty() && wanted != "tcp" && wanted != "ucx") {
    return Error{.code = Code::kUsage,
                 .title = "UNKNOWN TRANSPORT",
                 .what = "DDPRUN_TRANSPORT is \"" + wanted + "\".",
                 .hint = "Set it to \"tcp\" or \"ucx\", or leave it out.",
                 .page = "unknown-transport"};
  }
  if (options.own_address.empty() || wanted == "ucx") return Transport::Kind::kUcx;
  if (wanted == "tcp") return Transport::Kind::kTcp;
  const bool rdma = options.devices.size() > 1 || options.devices[0].find(':') != std::string::npos;
  const bool users_own = std::ranges::any_of(
      environment.Entries(), [](const std::string& each) { return each.starts_with("UCX_"); });
  return rdma || users_own ? Transport::Kind::kUcx : Transport::Kind::kTcp;
}

// A rank and how to reach it.
struct Entry {
  int node = 0;
  Transport::Kind kind = Transport::Kind::kUcx;
  std::string address;

  std::string ToText() const {
    return std::to_string(node) + (kind == Transport::Kind::kTcp ? " t " : " u ") + address;
  }
  static Entry FromText(const std::string& text) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string rest = text.substr(std::min(space + 1, text.size()));
    return {.node = static_cast<int>(ParseInt(text.substr(0, space)).value_or(0)),
            .kind = rest.starts_with('t') ? Transport::Kind::kTcp : Transport::Kind::kUcx,
            .address = rest.substr(std::min<size_t>(2, rest.size()))};
  }
};

struct Meeting {
  std::shared_ptr<Transport> transport;
  std::vector<Entry> entries;  // of all ranks

  bool AllAre(Transport::Kind kind) const {
    return std::ranges::all_of(entries, [&](const Entry& entry) { return entry.kind == kind; });
  }
};

// A collective of all ranks.
Result<Meeting> Meet(const RankInfo& info,
                     const Transport::Options& options,
                     const Exchange& exchange,
                     const std::string& subject) {
  Meeting meeting;
  DDPRUN_ASSIGN(meeting.transport, Transport::Create(options));
  std::vector<int> ranks(static_cast<size_t>(info.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const Entry own{info.node_rank, options.kind, meeting.transport->address()};
  const auto told = exchange(subject, ranks, own.ToText());
  if (!told) return Error(told.error()).While("Waiting for the addresses of all ranks");
  for (const std::string& entry : *told) meeting.entries.push_back(Entry::FromText(entry));
  return meeting;
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
  options.own_address = OwnAddressOn(options.devices, towards_store);
  DDPRUN_ASSIGN(options.kind, ChooseKind(environment, options));
  DDPRUN_ASSIGN(Meeting meeting, Meet(info, options, exchange, "addresses"));
  if (!meeting.AllAre(options.kind)) {  // all can use UCX
    options.kind = Transport::Kind::kUcx;
    DDPRUN_ASSIGN(meeting, Meet(info, options, exchange, "ucx_addresses"));
  }

  ConnectedNodes connected;
  std::vector<std::string> addresses;
  std::map<int, int> first_ranks;  // by node
  for (Entry& entry : meeting.entries) {
    const int rank = static_cast<int>(addresses.size());
    first_ranks.emplace(entry.node, rank);
    connected.node_of_rank.push_back(entry.node);
    connected.wire.peers.push_back(rank);
    addresses.push_back(std::move(entry.address));
  }
  const auto members =
      std::count(connected.node_of_rank.begin(), connected.node_of_rank.end(), info.node_rank);
  if (members != info.local_world_size) return WrongNode(info, static_cast<int>(members));
  // One rank of each node probes for all: a firewall stands between nodes.
  if (probes && first_ranks[info.node_rank] == info.rank) {
    DDPRUN_TRY(ProbeNodes(environment, options.devices, options.own_address, info.node_rank,
                          first_ranks, exchange, *probes));
  }
  meeting.transport->SetPeers(std::move(addresses));
  connected.wire.transport = std::move(meeting.transport);
  return connected;
}

}  // namespace ddprun::trainer

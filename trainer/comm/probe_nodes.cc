#include "trainer/comm/probe_nodes.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <asio/ip/tcp.hpp>

#include <ddprun/error.h>
#include "base/unique_fd.h"
#include "rendezvous/net/socket.h"

namespace ddprun::trainer {

namespace {

using asio::ip::address;
using std::chrono::milliseconds;

constexpr int kBacklog = 4096;
// TCP repeats a lost request after 1, 3, 7 and 15 s.
constexpr milliseconds kMostPatience{20'000};
// Variables by which users give UCX other ways, or ports that a firewall leaves open.
constexpr const char* kOwnWays[] = {"UCX_TLS", "UCX_NET_DEVICES", "UCX_TCP_PORT_RANGE"};

// Opens a port of `own`, which answers until the result is closed. The result is not valid if other
// nodes could not use the port, such as that of 127.0.0.1.
UniqueFd OpenPort(const address& own) {
  if (own.is_loopback()) return UniqueFd();
  const asio::ip::tcp::endpoint endpoint(own, 0);
  UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool open = ::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
  return open && ::listen(fd.get(), kBacklog) == 0 ? std::move(fd) : UniqueFd();
}

struct Probe {
  int node;
  address at;
  uint16_t port;
  UniqueFd socket;
};

Error NotReached(const Probe& probe, const std::string& why, Code code) {
  const std::string node = "node " + std::to_string(probe.node);
  return Error{.code = code,
               .title = "NODE NOT REACHED",
               .where = node,
               .what = "The ranks of this node cannot connect to " + node + " at " +
                       probe.at.to_string() + " port " + std::to_string(probe.port) + ": " + why +
                       ". The ranks of different nodes talk to each other over ports that the "
                       "kernel chooses.",
               .hint =
                   "Open all TCP ports between the nodes, or those of "
                   "UCX_TCP_PORT_RANGE=FIRST-LAST, which you set on all nodes; "
                   "--network_interface names another network.",
               .page = "node-not-reached"};
}

// Connects to all at the same time, and returns when all have answered. Error: kDeadlineExceeded,
// or kFailed if a node refuses.
Status ConnectToAll(std::vector<Probe> probes, milliseconds timeout) {
  const rendezvous::Deadline deadline = rendezvous::DeadlineAfter(timeout);
  for (Probe& probe : probes) {
    const int problem = rendezvous::BeginConnect(probe.at, probe.port, probe.socket);
    if (problem != 0) return NotReached(probe, ErrnoText(problem), Code::kFailed);
  }
  while (!probes.empty()) {
    std::vector<pollfd> entries;
    for (const Probe& probe : probes) entries.push_back({probe.socket.get(), POLLOUT, 0});
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      const std::string why = "no answer within " + std::to_string(timeout.count() / 1000) + " s";
      return NotReached(probes.front(), why, Code::kDeadlineExceeded);
    }
    if (::poll(entries.data(), entries.size(), static_cast<int>(left.count())) < 0) continue;
    for (size_t i = entries.size(); i-- > 0;) {
      if (entries[i].revents == 0) continue;
      const int problem = rendezvous::EndConnect(entries[i].fd);
      if (problem != 0) return NotReached(probes[i], ErrnoText(problem), Code::kFailed);
      probes.erase(probes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return {};
}

}  // namespace

Status ProbeNodes(const Environment& environment,
                  const std::vector<std::string>& devices,
                  const std::string& own_address,
                  int node,
                  const std::map<int, int>& first_ranks,
                  const Exchange& exchange,
                  milliseconds timeout) {
  const bool own_way = std::ranges::any_of(
      kOwnWays, [&](const char* name) { return environment.Get(name).has_value(); });
  const bool rdma = std::ranges::any_of(
      devices, [](const std::string& device) { return device.find(':') != device.npos; });
  UniqueFd listener;
  if (!own_way && !rdma && !own_address.empty()) {
    listener = OpenPort(asio::ip::make_address(own_address));
  }
  std::string own;  // "10.0.0.1 4711"
  if (listener.valid()) {
    const rendezvous::SocketEnd end = rendezvous::EndOf(listener.get(), ::getsockname);
    own = end.address.to_string() + " " + std::to_string(end.port);
  }
  std::vector<int> nodes;
  std::vector<int> ranks;
  for (const auto& [each, first_rank] : first_ranks) {
    nodes.push_back(each);
    ranks.push_back(first_rank);
  }
  DDPRUN_ASSIGN(const std::vector<std::string> told, exchange("port", ranks, own));
  std::vector<Probe> others;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] == node || own.empty() || told[i].empty()) continue;
    const size_t space = std::min(told[i].find(' '), told[i].size() - 1);
    asio::error_code problem;
    const address at = asio::ip::make_address(told[i].substr(0, space), problem);
    const auto port = static_cast<uint16_t>(ParseInt(told[i].substr(space + 1)).value_or(0));
    if (!problem) others.push_back({nodes[i], at, port, UniqueFd()});
  }
  DDPRUN_TRY(ConnectToAll(std::move(others), std::min(timeout, kMostPatience)));
  // The others' probes need this node's port until they are through.
  DDPRUN_ASSIGN(const auto probed, exchange("probed", ranks, "1"));
  return {};
}

}  // namespace ddprun::trainer

#include "trainer/comm/probe_nodes.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include <ddprun/error.h>

namespace ddprun::trainer {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 4096;
// TCP repeats a lost request after 1, 3, 7 and 15 s.
constexpr std::chrono::milliseconds kMostPatience{20'000};
// Variables by which users give UCX other ways, or ports that a firewall leaves open.
constexpr const char* kOwnWays[] = {"UCX_TLS", "UCX_NET_DEVICES", "UCX_TCP_PORT_RANGE"};

struct AddressInfo {
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list{nullptr, &::freeaddrinfo};
};

AddressInfo Parse(const std::string& address, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  AddressInfo info;
  if (::getaddrinfo(address.c_str(), port.c_str(), &hints, &list) == 0) info.list.reset(list);
  return info;
}

UniqueFd OpenSocket(const addrinfo& info) {
  return UniqueFd(::socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

std::string NumericHost(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST];
  const int failed = ::getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? host : "";
}

// Returns `wished` if the interface has it, else the interface's first address, IPv4 first.
std::string AddressOf(const std::string& interface, const std::string& wished) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::string v4, v6;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || interface != entry->ifa_name) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto size =
        static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const std::string text = NumericHost(entry->ifa_addr, size);
    if (text == wished) return text;
    std::string& first = family == AF_INET ? v4 : v6;
    if (first.empty() && text.find('%') == std::string::npos) first = text;
  }
  return v4.empty() ? v6 : v4;
}

struct Probe {
  int node;
  std::string place;  // "10.0.0.1 port 4711"
  UniqueFd socket;
};

Error NotReached(const Probe& probe, const std::string& why, Code code) {
  return Error{.code = code,
               .title = "NODE NOT REACHED",
               .where = "node " + std::to_string(probe.node),
               .what = "The ranks of this node cannot connect to node " +
                       std::to_string(probe.node) + " at " + probe.place + ": " + why +
                       ". The ranks of different nodes talk to each other over ports that the "
                       "kernel chooses.",
               .hint =
                   "Open all TCP ports between the nodes, or those of "
                   "UCX_TCP_PORT_RANGE=FIRST-LAST, which you set on all nodes; "
                   "--network_interface names another network.",
               .page = "node-not-reached"};
}

}  // namespace

Status ProbeAddresses(const std::map<int, std::string>& address_of_node,
                      std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::vector<Probe> probes;
  for (const auto& [node, text] : address_of_node) {
    const size_t space = text.find(' ');
    if (space == std::string::npos) continue;
    const std::string port = text.substr(space + 1);
    Probe probe{node, text.substr(0, space) + " port " + port, UniqueFd()};
    const AddressInfo info = Parse(text.substr(0, space), port);
    if (info.list == nullptr) continue;
    probe.socket = OpenSocket(*info.list);
    const int done = ::connect(probe.socket.get(), info.list->ai_addr, info.list->ai_addrlen);
    if (done == 0) continue;
    if (errno != EINPROGRESS) return NotReached(probe, ErrnoText(errno), Code::kFailed);
    probes.push_back(std::move(probe));
  }
  while (!probes.empty()) {
    std::vector<pollfd> entries;
    for (const Probe& probe : probes) entries.push_back({probe.socket.get(), POLLOUT, 0});
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return NotReached(probes.front(),
                        "no answer within " + std::to_string(timeout.count() / 1000) + " s",
                        Code::kDeadlineExceeded);
    }
    if (::poll(entries.data(), entries.size(), static_cast<int>(left)) < 0) continue;
    for (size_t i = entries.size(); i-- > 0;) {
      if (entries[i].revents == 0) continue;
      int problem = 0;
      socklen_t size = sizeof problem;
      ::getsockopt(entries[i].fd, SOL_SOCKET, SO_ERROR, &problem, &size);
      if (problem != 0) return NotReached(probes[i], ErrnoText(problem), Code::kFailed);
      probes.erase(probes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return {};
}

std::string OpenProbePort(const std::string& address, UniqueFd& listener) {
  if (address.empty() || address == "::1" || address.starts_with("127.")) return "";
  const AddressInfo info = Parse(address, "0");
  if (info.list == nullptr) return "";
  UniqueFd socket = OpenSocket(*info.list);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::bind(socket.get(), info.list->ai_addr, info.list->ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return "";
  }
  char port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&bound), size, nullptr, 0, port, sizeof port,
                    NI_NUMERICSERV) != 0) {
    return "";
  }
  listener = std::move(socket);
  return address + " " + port;
}

Status ProbeNodes(const Environment& environment,
                  const std::vector<std::string>& devices,
                  int node,
                  const std::vector<int>& nodes,
                  const std::string& prefix,
                  rendezvous::TcpStore& store,
                  std::chrono::milliseconds timeout) {
  const bool own_way = std::ranges::any_of(
      kOwnWays, [&](const char* name) { return environment.Get(name).has_value(); });
  const bool rdma = std::ranges::any_of(
      devices, [](const std::string& device) { return device.find(':') != device.npos; });
  UniqueFd listener;
  std::string own;
  if (!own_way && !rdma && !devices.empty()) {
    own = OpenProbePort(AddressOf(devices.front(), store.LocalAddress()), listener);
  }
  const rendezvous::Deadline deadline = rendezvous::DeadlineAfter(timeout);
  const auto keys = [&](const char* kind) {
    std::vector<std::string> names;
    for (const int each : nodes) names.push_back(prefix + kind + std::to_string(each));
    return names;
  };
  DDPRUN_TRY(store.Set(prefix + "port/" + std::to_string(node), own, deadline));
  DDPRUN_ASSIGN(const std::vector<std::string> told, store.MultiGet(keys("port/"), deadline));
  std::map<int, std::string> others;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] != node && !own.empty()) others[nodes[i]] = told[i];
  }
  DDPRUN_TRY(ProbeAddresses(others, std::min(timeout, kMostPatience)));
  // The others' probes need this node's port until they are through.
  DDPRUN_TRY(store.Set(prefix + "probed/" + std::to_string(node), "1", deadline));
  return store.Wait(keys("probed/"), deadline);
}

}  // namespace ddprun::trainer

#include "launcher/hang/dead_links.h"

#include <algorithm>

namespace ddprun::launcher {

namespace {

// Linux sends again after 0.2 s at the earliest, and then waits twice as long each time.
constexpr int kDeadResends = 4;

}  // namespace

std::vector<DeadLink> SelectDeadLinks(std::span<const rendezvous::SocketEntry> sockets,
                                      const SocketHolders& holders) {
  std::vector<DeadLink> links;
  for (const rendezvous::SocketEntry& socket : sockets) {
    const auto holder = holders.find(socket.inode);
    if (holder == holders.end() || socket.resends < kDeadResends) continue;
    links.push_back({.rank = holder->second.rank,
                     .local = socket.local,
                     .remote = socket.remote,
                     .bytes = socket.unacknowledged,
                     .resends = socket.resends});
  }
  std::ranges::stable_sort(links, {}, &DeadLink::rank);
  return links;
}

std::vector<DeadLink> FindDeadLinks(std::span<const LiveWorker> workers) {
  return SelectDeadLinks(rendezvous::ReadSocketTable(), SocketsOfWorkers(workers));
}

std::string Describe(const DeadLink& link) {
  return link.remote + " does not acknowledge what rank " + std::to_string(link.rank) +
         " sends from " + link.local + " (" + std::to_string(link.bytes) + " bytes, sent again " +
         std::to_string(link.resends) + " times)";
}

}  // namespace ddprun::launcher

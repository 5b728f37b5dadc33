#include "launcher/store/store_waits.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

using rendezvous::ParkedWait;
using rendezvous::SocketEntry;
using std::chrono::milliseconds;

// A limit, because a rank may wait for the keys of ten thousand others.
constexpr size_t kShownKeys = 3;

std::string KeysText(const rendezvous::WaitStatus& wait) {
  const std::vector<std::string>& keys = wait.keys;
  std::string text;
  const size_t shown = std::min(keys.size(), kShownKeys);
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + KeyText(keys[i]);
  if (shown < wait.num_keys) {
    text += " and " + std::to_string(wait.num_keys - shown) + " more keys";
  }
  return text;
}

std::string WaitedText(milliseconds waited) {
  const auto ms = waited.count();
  if (ms < 10'000) return std::to_string(ms / 1000) + "." + std::to_string(ms / 100 % 10) + " s";
  return std::to_string(ms / 1000) + " s";
}

}  // namespace

std::string KeyText(std::string_view key) {
  std::string text = MakePrintable(key);
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, '?');
  return text;
}

std::vector<SocketHolder> ProcessesOfWorkers(std::span<const ProcessEntry> processes,
                                             std::span<const LiveWorker> workers) {
  std::unordered_map<pid_t, int> rank_of;
  std::vector<SocketHolder> found;
  for (const LiveWorker& worker : workers) {
    rank_of.emplace(worker.pid, worker.rank);
    found.push_back({worker.rank, worker.pid});
  }
  // Several passes, because a child may come before its parent in the list.
  for (size_t known = 0; known != found.size();) {
    known = found.size();
    for (const ProcessEntry& process : processes) {
      if (rank_of.contains(process.pid)) continue;
      auto owner = rank_of.find(process.session);
      if (owner == rank_of.end()) owner = rank_of.find(process.parent);
      if (owner == rank_of.end()) continue;
      found.push_back({owner->second, process.pid});
      rank_of.emplace(process.pid, owner->second);
    }
  }
  return found;
}

SocketHolders SocketsOfWorkers(std::span<const LiveWorker> workers) {
  SocketHolders holders;
  for (const SocketHolder& process : ProcessesOfWorkers(ListProcesses(), workers)) {
    // Children inherit sockets. emplace() keeps the first process, which is the worker.
    for (const uint64_t inode : DescriptorInodes(process.pid, "socket")) {
      holders.emplace(inode, process);
    }
  }
  return holders;
}

std::vector<StoreWait> AttributeWaits(std::span<const ParkedWait> parked,
                                      std::span<const SocketEntry> sockets,
                                      const SocketHolders& holders,
                                      std::chrono::steady_clock::time_point now) {
  std::unordered_map<std::string, uint64_t> inodes;  // by the addresses of both ends
  for (const SocketEntry& socket : sockets) {
    inodes.emplace(socket.local + " " + socket.remote, socket.inode);
  }
  std::vector<StoreWait> waits;
  for (const ParkedWait& wait : parked) {
    StoreWait found{.status = {wait.peer, wait.keys, wait.keys.size(), wait.barrier,
                               std::chrono::duration_cast<milliseconds>(now - wait.since)}};
    const auto inode = inodes.find(wait.peer + " " + wait.own);
    const auto holder = inode == inodes.end() ? holders.end() : holders.find(inode->second);
    if (holder != holders.end()) {
      found.rank = holder->second.rank;
      found.pid = holder->second.pid;
    }
    waits.push_back(std::move(found));
  }
  return waits;
}

std::vector<StoreWait> FindWaits(const rendezvous::StoreServer& server,
                                 std::span<const LiveWorker> workers) {
  const auto parked = server.ParkedWaits();
  if (parked.empty()) return {};
  return AttributeWaits(parked, rendezvous::ReadSocketTable(), SocketsOfWorkers(workers),
                        std::chrono::steady_clock::now());
}

std::string Describe(const StoreWait& wait) {
  const rendezvous::WaitStatus& status = wait.status;
  std::string who = status.peer;
  if (wait.rank) {
    who = "rank " + std::to_string(*wait.rank) + " (pid " + std::to_string(wait.pid) + ")";
  }
  const std::string waited = who + " has waited " + WaitedText(status.waited) + " ";
  if (status.barrier) return waited + "for the others at barrier " + KeysText(status);
  return waited + "for " + KeysText(status) + ", which nobody has set";
}

}  // namespace ddprun::launcher

#include "trainer/comm/peer_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "trainer/comm/host_process_group_core.h"

namespace ddprun::trainer {

namespace {

// The time until a new peer is watched, which is also how often groups that are gone are dropped.
constexpr int kPollMilliseconds = 100;

class Watcher {
 public:
  using Core = std::weak_ptr<HostProcessGroupCore>;

  // Returns the watcher of this process. A child of fork() gets one of its own, because it has no
  // thread of its parent.
  static Watcher& OfProcess() {
    static std::mutex mutex;
    static std::map<pid_t, Watcher*> watchers;  // never freed, because their threads use them
    const std::lock_guard lock(mutex);
    Watcher*& own = watchers[::getpid()];
    if (own == nullptr) {
      own = new Watcher;
      std::thread([watcher = own] { watcher->Run(); }).detach();
    }
    return *own;
  }

  void Add(pid_t pid, const std::shared_ptr<HostProcessGroupCore>& core, int rank) {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[pid];
    if (!peer.pidfd.valid()) {
      peer.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
      if (!peer.pidfd.valid()) {
        if (errno == ESRCH) GiveUp(*core, rank);
        peers_.erase(pid);
        return;
      }
    }
    peer.groups.push_back({core, rank});
  }

 private:
  struct Peer {
    UniqueFd pidfd;  // readable when the process has ended
    std::vector<std::pair<Core, int>> groups;
  };

  static void GiveUp(HostProcessGroupCore& core, int rank) {
    core.region->control(core.placement.LocalOf(rank)).given_up = true;
  }

  // Drops groups that are gone. Returns the descriptors to wait for.
  std::vector<pollfd> Descriptors() {
    const std::lock_guard lock(mutex_);
    std::vector<pollfd> all;
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      std::erase_if(peer->second.groups, [](const auto& group) { return group.first.expired(); });
      if (!peer->second.groups.empty()) all.push_back({peer->second.pidfd.get(), POLLIN, 0});
      peer = peer->second.groups.empty() ? peers_.erase(peer) : std::next(peer);
    }
    return all;
  }

  void NoteEnded(int pidfd) {
    std::vector<std::shared_ptr<HostProcessGroupCore>> used;  // freed without the lock
    const std::lock_guard lock(mutex_);
    for (auto peer = peers_.begin(); peer != peers_.end(); ++peer) {
      if (peer->second.pidfd.get() != pidfd) continue;
      for (const auto& [group, rank] : peer->second.groups) {
        used.push_back(group.lock());
        if (used.back() != nullptr) GiveUp(*used.back(), rank);
      }
      peers_.erase(peer);
      return;
    }
  }

  void Run() {
    for (;;) {
      std::vector<pollfd> all = Descriptors();
      if (::poll(all.data(), all.size(), kPollMilliseconds) <= 0) continue;
      for (const pollfd& one : all) {
        if ((one.revents & POLLIN) != 0) NoteEnded(one.fd);
      }
    }
  }

  std::mutex mutex_;
  std::map<pid_t, Peer> peers_;  // guarded by mutex_
};

}  // namespace

void PeerWatch::Watch(const HostProcessGroup& group, const std::vector<pid_t>& pids) {
  for (int rank = 0; rank < group.getSize(); ++rank) {
    const NodePlacement& placement = group.core_->placement;
    if (rank == group.getRank() || placement.NodeOf(rank) != placement.node()) continue;
    Watcher::OfProcess().Add(pids[static_cast<size_t>(rank)], group.core_, rank);
  }
}

}  // namespace ddprun::trainer

// The keys of a static job in the store, as they are on the wire. Those under torchelastic/ are
// torchrun's (torch 2.11); those under ddprun/ are ours, and torchrun nodes leave them alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::rendezvous {

class JobKeys {
 public:
  explicit JobKeys(const std::string& run_id) : base_("/" + run_id + "/") {}

  // Counted by every TCPStore client; torchrun's node 0 waits until all nodes have.
  static std::string Init() { return "init/"; }
  std::string RoleInfo(int round, int node) const {
    return Round(round) + "torchelastic/role_info/" + std::to_string(node);
  }
  std::string AssignedRanks(int round, int node) const {
    return Round(round) + "torchelastic/assigned_ranks/" + std::to_string(node);
  }
  std::string NumFinished(int round) const {
    return Round(round) + "torchelastic/agent/terminal_state/num_members";
  }
  std::string LastFinished(int round) const {
    return Round(round) + "torchelastic/agent/terminal_state/last_member";
  }
  // Whose store it is, whatever the job's name: as Node(0).
  static std::string Host() { return "/ddprun/host"; }
  // Which process has the node rank.
  std::string Node(int node) const { return base_ + "ddprun/node/" + std::to_string(node); }
  // The job and the node whose Node or RoleInfo `key` is, "y" and "1"; nothing for other keys and
  // for those of this job.
  std::optional<std::pair<std::string, std::string>> OtherJob(const std::string& key) const {
    if (key.starts_with(base_)) return std::nullopt;
    for (const std::string_view marker : {"/ddprun/node/", "/torchelastic/role_info/"}) {
      const size_t at = key.find(marker);
      if (at == key.npos || at == 0) continue;
      return std::pair(key.substr(1, at - 1), key.substr(at + marker.size()));
    }
    return std::nullopt;
  }
  // What node 0 knows of who has joined, a line for people.
  std::string Joined(int round) const { return Round(round) + "ddprun/joined"; }
  // Where the workers of a later round find their fresh store.
  std::string MasterPort(int round) const { return Round(round) + "ddprun/master_port"; }
  // Never set: each node waits for its own as long as it lives, so node 0 notices its end.
  std::string Present(int node) const { return PresentPrefix() + std::to_string(node); }
  std::string PresentPrefix() const { return base_ + "ddprun/present/"; }
  // Its workers have ended well, so its end is no loss.
  std::string Left(int round, int node) const {
    return Round(round) + "ddprun/left/" + std::to_string(node);
  }
  // One per node: node 0 decides by its own what the others read in theirs.
  std::string Failure(int round, int node) const {
    return Round(round) + "ddprun/failure/" + std::to_string(node);
  }
  std::string FailureSeen(int round, int node) const {
    return Round(round) + "ddprun/failure_seen/" + std::to_string(node);
  }

 private:
  // torchrun knows only the first round: its agents restart on their own.
  std::string Round(int round) const {
    return round == 0 ? base_ : base_ + "ddprun/round/" + std::to_string(round) + "/";
  }

  const std::string base_;
};

}  // namespace ddprun::rendezvous

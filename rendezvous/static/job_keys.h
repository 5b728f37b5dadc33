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

  // Every TCPStore client adds 1 to this key, and torchrun's node 0 waits until all nodes have.
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
  // Has the same value as Node(0): the identity of the node that hosts the store. Nodes of other
  // jobs find it, too, because the key does not contain the job's name.
  static std::string Host() { return "/ddprun/host"; }
  // Has the identity of the process that has taken the node rank.
  std::string Node(int node) const { return base_ + "ddprun/node/" + std::to_string(node); }
  // If `key` is Node() or RoleInfo() of another job, returns this job and its node, such as "y"
  // and "1". Returns nullopt for all other keys.
  std::optional<std::pair<std::string, std::string>> OtherJob(const std::string& key) const {
    if (key.starts_with(base_)) return std::nullopt;
    for (const std::string_view marker : {"/ddprun/node/", "/torchelastic/role_info/"}) {
      const size_t at = key.find(marker);
      if (at == key.npos || at == 0) continue;
      return std::pair(key.substr(1, at - 1), key.substr(at + marker.size()));
    }
    return std::nullopt;
  }
  // Node 0 writes here which nodes have joined, as a line for people.
  std::string Joined(int round) const { return Round(round) + "ddprun/joined"; }
  // Has the port of the fresh store that the workers of a later round use.
  std::string MasterPort(int round) const { return Round(round) + "ddprun/master_port"; }
  // Never set. Each node waits for its own key as long as it lives, so that node 0 notices when
  // the node's agent dies.
  std::string Present(int node) const { return PresentPrefix() + std::to_string(node); }
  std::string PresentPrefix() const { return base_ + "ddprun/present/"; }
  // A node sets its key when its workers have ended well, so that node 0 does not take it for lost.
  std::string Left(int round, int node) const {
    return Round(round) + "ddprun/left/" + std::to_string(node);
  }
  // Each node reads how the round ended from its own key. Node 0 copies the note of its key to the
  // keys of the other nodes.
  std::string Failure(int round, int node) const {
    return Round(round) + "ddprun/failure/" + std::to_string(node);
  }
  std::string FailureSeen(int round, int node) const {
    return Round(round) + "ddprun/failure_seen/" + std::to_string(node);
  }

 private:
  // torchrun knows only the first round, because its agents restart on their own.
  std::string Round(int round) const {
    return round == 0 ? base_ : base_ + "ddprun/round/" + std::to_string(round) + "/";
  }

  const std::string base_;
};

}  // namespace ddprun::rendezvous

// Replaces the workers of this node that signals have ended, or of a lost node in whose place this
// one is, while all others go on. The agents of several nodes agree on each replacement
// (loss_board.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent_plan.h"
#include "launcher/agent/group_handlers.h"
#include "launcher/agent/loss_board.h"
#include "launcher/agent/replacements.h"
#include "launcher/agent/worker_spec.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class LostWorkers {
 public:
  struct Handlers {
    std::function<bool()> can_fork;
    std::function<WorkerSpec(int local_rank)> spec_of;
    // Called if a worker of another node was lost, and workers of this node cannot continue; or if
    // this node cannot take the place of another.
    std::function<void(const std::string& reason)> on_stuck;
  };

  // `replacements`: of this attempt; the arguments must outlive this object.
  LostWorkers(const GroupSurroundings& surroundings,
              const rendezvous::RendezvousOptions& options,
              const rendezvous::Membership& membership,
              Replacements replacements,
              Handlers handlers);

  // As GroupHandlers::find_replacement.
  void Find(const WorkerRecord& lost, const GroupHandlers::Then& then);
  // Returns whether this node's workers can wait until others replace those of a lost node.
  bool CanOutliveNode() const;
  // Calls `start` with `workers`, all of this node, when the other nodes know that they replace
  // those of a lost node.
  using StartAll = std::function<void(const std::vector<WorkerSpec>&)>;
  void ReplaceNode(std::vector<WorkerSpec> workers, StartAll start);

 private:
  bool one_node() const { return membership_.nnodes == 1; }
  std::optional<WorkerSpec> SpecOf(const Result<int>& generation, int local_rank) const;
  void OnLoss(const Loss& loss);
  void StartNewcomers(int generation);
  void OnNoLosses(const std::string& reason);

  const GroupSurroundings surroundings_;
  const rendezvous::Membership& membership_;
  const Handlers handlers_;
  Replacements replacements_;
  std::unique_ptr<LossBoard> losses_;  // with several nodes
  // By local rank: lost workers that this node has announced.
  std::map<int, std::pair<WorkerRecord, GroupHandlers::Then>> announced_;
  // Workers that replace those of a lost node, and the local ranks that are not known as lost yet.
  std::vector<WorkerSpec> newcomers_;
  std::set<int> awaited_;
  StartAll start_all_;
  Clock::Alarm alarm_;  // the end of the time for the others to know
};

}  // namespace ddprun::launcher

// Internal to kStaticBackend: what node 0 does for the other nodes of a job.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/steady_timer.hpp>

#include "rendezvous/static/exit_barrier.h"
#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

// Waits for all nodes, gives out their ranks, and notices nodes that are lost. After a loss no
// round can follow, because a static job needs all of its nodes.
class StaticHost {
 public:
  StaticHost(StaticNode& node, const ExitBarrier& barrier);

  // Notices from now on if the agent of another node dies.
  void WatchNodes();
  // Waits for the nodes of this round, then gives out the ranks. Refuses the round if a node is
  // lost.
  void Gather();
  std::vector<int> missing() const { return {missing_.begin(), missing_.end()}; }
  // Prepares for the next round.
  void Reset();

 private:
  void AwaitNode(int node);
  void AssignAll();
  void PublishRanks(const Reply& role_infos);
  void OnAbandoned(const std::vector<std::string>& keys);
  void OnNodeGone(int node);
  void OnNodeLost(int node, bool had_left);
  void RefuseRound();

  StaticNode& node_;
  const ExitBarrier& barrier_;
  asio::steady_timer refusing_;
  std::set<int> missing_;  // nodes that have not joined this round
  bool assigned_ = false;  // the ranks of this round are given out or refused
  bool refused_ = false;
  std::optional<RoundEnd> lost_;  // names the node that is lost
};

}  // namespace ddprun::rendezvous

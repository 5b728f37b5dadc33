// A spare node that takes the place of a lost one, while the round goes on: first all other nodes
// say whether their workers can wait for new ones. Then the spare reaches the round's store, and
// starts when the lost node's workers have ended. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <vector>

#include "rendezvous/elastic/round_actions.h"
#include "rendezvous/elastic/round_nodes.h"

namespace ddprun::rendezvous {

class StandIn {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Next {
    kWait,
    kReach,   // the spare is to reach the store
    kStart,   // the spare takes its place
    kGiveUp,  // the round ends
  };

  // `seat`: the node rank of the lost node; `members`: of the round, by node rank; `otherwise`: the
  // end of the round if this fails.
  StandIn(int seat, NodeId spare, const std::vector<NodeId>& members, RoundEnd otherwise, Time now);

  // A node has said whether it can go on.
  Next OnAnswer(NodeId node, bool goes_on);
  // The spare reaches the store, or does not. `stopped`: when the lost node's workers have ended.
  Next OnSpare(bool reaches, Time now, Time stopped);
  Next OnTime(Time now, Time stopped) const;
  // Returns when OnTime() has something to do.
  Time Deadline(Time stopped) const;

  int seat() const { return seat_; }
  NodeId spare() const { return spare_; }
  const RoundEnd& otherwise() const { return otherwise_; }
  // The members with the spare in its place.
  const std::vector<NodeId>& members() const { return members_; }

 private:
  const int seat_;
  const NodeId spare_;
  const RoundEnd otherwise_;
  const Time deadline_;
  std::vector<NodeId> members_;
  std::set<NodeId> asked_;  // nodes that have not answered yet
  bool has_reached_ = false;
};

// A spare that has waited for less time may still load what its workers need.
inline constexpr std::chrono::seconds kSpareReady{5};

// Returns the first spare that is ready and whose workers could be those of `gone`.
std::optional<NodeId> FindSpare(const RoundNodes& nodes, const NodeInfo& gone, StandIn::Time now);

}  // namespace ddprun::rendezvous

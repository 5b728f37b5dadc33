// Internal to kStaticBackend: what a node knows of its current round.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/rendezvous.h"
#include "rendezvous/store/store_connection.h"

namespace ddprun::rendezvous {

struct StaticRound {
  std::function<void(Result<Membership>)> on_joined;
  std::unique_ptr<StoreWatch> assigned_watch;
  std::unique_ptr<StoreWatch> failure_watch;
  std::unique_ptr<StoreConnection> barrier;  // waits for the other nodes while this node leaves
  std::set<int> missing;                     // on node 0: nodes that have not joined
  std::string who_is_there;                  // the last DescribeJoined() of the round
  bool assigned = false;
  bool refused = false;  // by node 0, because a node is lost
  std::string last_line;
  std::function<void(RoundEnd)> on_failure;
  std::optional<RoundEnd> failure;
  bool noted = false;  // this node has read its failure key
  bool failure_delivered = false;
  std::optional<RoundEnd::Kind> asked_end;  // the kind that EndRound() got on this node
  std::function<void()> on_reported;
  std::function<void(Status)> on_left;
  bool leave_known = false;  // the store has counted this node as finished
  bool left = false;
};

}  // namespace ddprun::rendezvous

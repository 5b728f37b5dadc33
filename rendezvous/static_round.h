// Internal to kStaticBackend: what a node knows of the round that it is in.
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
  std::unique_ptr<StoreConnection> barrier;  // of a node that leaves
  std::set<int> missing;                     // node 0 knows it
  std::string who_is_there;                  // as node 0 told it, or as others saw it last
  bool assigned = false;
  bool refused = false;  // by node 0, which has lost a node
  std::string last_line;
  std::function<void(RoundEnd)> on_failure;
  std::optional<RoundEnd> failure;
  bool noted = false;  // the failure's key has been read
  bool failure_delivered = false;
  std::optional<RoundEnd::Kind> asked_end;  // by this node's EndRound
  std::function<void()> on_reported;
  std::function<void(Status)> on_left;
  bool leave_known = false;  // node 0 has counted this node among those that are done
  bool left = false;
};

}  // namespace ddprun::rendezvous

// The nodes of a round by node rank. Pure.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "rendezvous/elastic/round_actions.h"
#include "rendezvous/elastic/round_nodes.h"

namespace ddprun::rendezvous {

class RoundMembers {
 public:
  RoundMembers() = default;
  explicit RoundMembers(std::vector<NodeId> ids) : ids_(std::move(ids)) {
    for (size_t i = 0; i < ids_.size(); ++i) ranks_[ids_[i]] = static_cast<int>(i);
  }

  const std::vector<NodeId>& ids() const { return ids_; }
  int count() const { return static_cast<int>(ids_.size()); }
  NodeId first() const { return ids_.front(); }
  // Returns -1 for a node that is no member.
  int RankOf(NodeId id) const {
    const auto found = ranks_.find(id);
    return found == ranks_.end() ? -1 : found->second;
  }

 private:
  std::vector<NodeId> ids_;
  std::map<NodeId, int> ranks_;
};

// Returns the memberships of `members`, by node rank. `common` holds what all of them have: the
// round, its restarts and its store.
std::vector<Membership> MembershipsOf(const RoundNodes& nodes,
                                      const std::vector<NodeId>& members,
                                      const Membership& common);

}  // namespace ddprun::rendezvous

#include "rendezvous/elastic/round_members.h"

#include "rendezvous/assign_ranks.h"

namespace ddprun::rendezvous {

std::vector<Membership> MembershipsOf(const RoundNodes& nodes,
                                      const std::vector<NodeId>& members,
                                      const Membership& common) {
  std::vector<RoleInfo> roles;
  for (const NodeId member : members) {
    const NodeInfo& info = nodes.at(member).info;
    roles.push_back({info.role, static_cast<int>(roles.size()), info.local_world_size});
  }
  const std::vector<AssignedRanks> ranks = AssignRanks(roles);
  std::vector<Membership> memberships(members.size(), common);
  for (size_t i = 0; i < members.size(); ++i) {
    Membership& membership = memberships[i];
    membership.node_rank = static_cast<int>(i);
    membership.nnodes = static_cast<int>(members.size());
    membership.base_rank = ranks[i].base_rank;
    membership.world_size = ranks[i].world_size;
    membership.role_base_rank = ranks[i].role_base_rank;
    membership.role_world_size = ranks[i].role_world_size;
  }
  return memberships;
}

}  // namespace ddprun::rendezvous

#include "rendezvous/assign_ranks.h"

#include <map>

namespace ddprun::rendezvous {

std::vector<AssignedRanks> AssignRanks(std::span<const RoleInfo> nodes) {
  int world_size = 0;
  std::map<std::string, int> role_sizes;
  std::vector<AssignedRanks> assigned;
  for (const RoleInfo& node : nodes) {
    int& role_size = role_sizes[node.role];
    assigned.push_back({.base_rank = world_size, .role_base_rank = role_size});
    world_size += node.local_world_size;
    role_size += node.local_world_size;
  }
  for (size_t i = 0; i < assigned.size(); ++i) {
    assigned[i].world_size = world_size;
    assigned[i].role_world_size = role_sizes[nodes[i].role];
  }
  return assigned;
}

}  // namespace ddprun::rendezvous

// Assigns ranks to each node's workers as torch elastic does (agent/server/api.py, 2.11,
// _assign_worker_ranks). Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ddprun::rendezvous {

// The report of a node about its workers.
struct RoleInfo {
  std::string role;
  int node_rank = 0;
  int local_world_size = 0;
};

// The ranks that a node's workers get.
struct AssignedRanks {
  int base_rank = 0;
  int world_size = 0;
  int role_base_rank = 0;
  int role_world_size = 0;

  friend bool operator==(const AssignedRanks&, const AssignedRanks&) = default;
};

// Returns the ranks of each node. `nodes` are in the order of their node ranks.
std::vector<AssignedRanks> AssignRanks(std::span<const RoleInfo> nodes);

}  // namespace ddprun::rendezvous

// Assigns ranks to each node's workers as torch elastic does (agent/server/api.py, 2.11,
// _assign_worker_ranks). Also has the JSON by which nodes exchange counts and ranks. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::rendezvous {

// What a node reports about its workers.
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

// {"role": "default", "rank": 0, "local_world_size": 2}. Parsing returns nullopt for other text.
std::string ToJson(const RoleInfo& info);
std::optional<RoleInfo> ParseRoleInfo(std::string_view json);

// [base_rank, world_size, role_base_rank, role_world_size]
std::string ToJson(const AssignedRanks& ranks);
std::optional<AssignedRanks> ParseAssignedRanks(std::string_view json);

}  // namespace ddprun::rendezvous

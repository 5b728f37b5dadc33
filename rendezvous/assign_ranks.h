// Which ranks each node's workers get, as torch elastic computes it (agent/server/api.py, 2.11,
// _assign_worker_ranks), and the JSON in which nodes tell each other. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::rendezvous {

// What a node brings.
struct RoleInfo {
  std::string role;
  int node_rank = 0;
  int local_world_size = 0;
};

// What it gets.
struct AssignedRanks {
  int base_rank = 0;
  int world_size = 0;
  int role_base_rank = 0;
  int role_world_size = 0;

  friend bool operator==(const AssignedRanks&, const AssignedRanks&) = default;
};

// In the order of `nodes`, which is that of their ranks.
std::vector<AssignedRanks> AssignRanks(std::span<const RoleInfo> nodes);

// {"role": "default", "rank": 0, "local_world_size": 2}; nullopt when the text is something else.
std::string ToJson(const RoleInfo& info);
std::optional<RoleInfo> ParseRoleInfo(std::string_view json);

// [base_rank, world_size, role_base_rank, role_world_size]
std::string ToJson(const AssignedRanks& ranks);
std::optional<AssignedRanks> ParseAssignedRanks(std::string_view json);

}  // namespace ddprun::rendezvous

// The JSON by which the nodes of a static job exchange their numbers of workers and their ranks. It
// is torch elastic's. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/assign_ranks.h"

namespace ddprun::rendezvous {

// {"role": "default", "rank": 0, "local_world_size": 2}. Parsing returns nullopt for other text.
std::string ToJson(const RoleInfo& info);
std::optional<RoleInfo> ParseRoleInfo(std::string_view json);

// [base_rank, world_size, role_base_rank, role_world_size]
std::string ToJson(const AssignedRanks& ranks);
std::optional<AssignedRanks> ParseAssignedRanks(std::string_view json);

}  // namespace ddprun::rendezvous

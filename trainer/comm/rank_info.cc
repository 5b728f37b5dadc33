#include "trainer/comm/rank_info.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace ddprun::trainer {

namespace {

// The number of ranks that a message tag between nodes can name (WireTag in node_link.h).
constexpr int64_t kMaxRanks = 1 << 16;

// Returns the entry of `node` in SLURM's "2(x3),1": tasks per node, with equal neighbours combined.
std::optional<int64_t> TasksOnNode(std::string_view text, int64_t node) {
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const size_t repeat = entry.find("(x");
    const std::optional<int64_t> tasks = ParseInt(entry.substr(0, repeat));
    std::optional<int64_t> nodes = 1;
    if (repeat != std::string_view::npos && entry.ends_with(')')) {
      nodes = ParseInt(entry.substr(repeat + 2, entry.size() - repeat - 3));
    }
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

Result<RankInfo> RankInfoOfSrun(const Environment& environment) {
  RankInfo info;
  DDPRUN_ASSIGN(const int64_t world, environment.GetInt("SLURM_STEP_NUM_TASKS", 1, 1, kMaxRanks));
  DDPRUN_ASSIGN(const int64_t rank, environment.GetInt("SLURM_PROCID", 0, 0, world - 1));
  DDPRUN_ASSIGN(const int64_t node, environment.GetInt("SLURM_NODEID", 0, 0, kMaxRanks));
  const int64_t local_world =
      TasksOnNode(environment.GetOr("SLURM_STEP_TASKS_PER_NODE", ""), node).value_or(world);
  DDPRUN_ASSIGN(const int64_t local, environment.GetInt("SLURM_LOCALID", 0, 0, local_world - 1));
  info.rank = static_cast<int>(rank);
  info.world_size = static_cast<int>(world);
  info.local_rank = static_cast<int>(local);
  info.local_world_size = static_cast<int>(local_world);
  info.node_rank = static_cast<int>(node);
  return info;
}

}  // namespace

bool IsUnderSrun(const Environment& environment) {
  return !environment.Get("RANK") && environment.Get("SLURM_STEP_ID").has_value();
}

Result<RankInfo> ReadRankInfo(const Environment& environment) {
  if (IsUnderSrun(environment)) return RankInfoOfSrun(environment);
  RankInfo info;
  DDPRUN_ASSIGN(const int64_t world, environment.GetInt("WORLD_SIZE", 1, 1, kMaxRanks));
  DDPRUN_ASSIGN(const int64_t rank, environment.GetInt("RANK", 0, 0, world - 1));
  DDPRUN_ASSIGN(const int64_t local_world, environment.GetInt("LOCAL_WORLD_SIZE", world, 1, world));
  DDPRUN_ASSIGN(const int64_t local_rank,
                environment.GetInt("LOCAL_RANK", rank % local_world, 0, local_world - 1));
  info.rank = static_cast<int>(rank);
  info.world_size = static_cast<int>(world);
  info.local_rank = static_cast<int>(local_rank);
  info.local_world_size = static_cast<int>(local_world);
  DDPRUN_ASSIGN(const int64_t node,
                environment.GetInt("GROUP_RANK", rank / local_world, 0, kMaxRanks));
  info.node_rank = static_cast<int>(node);
  return info;
}

}  // namespace ddprun::trainer

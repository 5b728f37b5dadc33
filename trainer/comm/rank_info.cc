#include "trainer/comm/rank_info.h"

#include "base/slurm_step.h"

namespace ddprun::trainer {

namespace {

// The number of ranks that a message tag between nodes can name (WireTag in node_link.h).
constexpr int kMaxRanks = 1 << 16;

Result<RankInfo> RankInfoOfSrun(const Environment& environment) {
  DDPRUN_ASSIGN(const SlurmStep step, ReadSlurmStep(environment, kMaxRanks));
  return RankInfo{.rank = step.task,
                  .world_size = step.num_tasks,
                  .local_rank = step.local_task,
                  .local_world_size = step.tasks_here(),
                  .node_rank = static_cast<int>(step.node)};
}

}  // namespace

bool IsUnderSrun(const Environment& environment) {
  return !environment.Get("RANK") && IsSlurmStep(environment);
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

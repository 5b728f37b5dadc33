#include "trainer/comm/rank_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;

// Messages between nodes name ranks by 16 bits.
TEST(RankInfo, RefusesMoreRanksThanMessagesCanName) {
  Environment environment({{"RANK", "65535"},
                           {"WORLD_SIZE", "65536"},
                           {"LOCAL_RANK", "0"},
                           {"LOCAL_WORLD_SIZE", "1"},
                           {"GROUP_RANK", "65535"}});
  const Result<RankInfo> most = ReadRankInfo(environment);
  ASSERT_TRUE(most.has_value());
  EXPECT_EQ(most->rank, 65535);
  environment.Set("WORLD_SIZE", "65537");
  const Result<RankInfo> more = ReadRankInfo(environment);
  ASSERT_FALSE(more.has_value());
  EXPECT_THAT(more.error().where + more.error().what, HasSubstr("WORLD_SIZE"));

  Environment of_srun(
      {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "65537"}, {"SLURM_PROCID", "0"}});
  EXPECT_FALSE(ReadRankInfo(of_srun).has_value());
  of_srun.Set("SLURM_STEP_NUM_TASKS", "65536");
  EXPECT_TRUE(ReadRankInfo(of_srun).has_value());
}

}  // namespace
}  // namespace ddprun::trainer

#include "launcher/agent/virtual_local_rank.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

TEST(VirtualLocalRank, NeedsAGpuForEachWorker) {
  const Environment env(Environment::Variables{{"CUDA_VISIBLE_DEVICES", "4,5"}});
  EXPECT_TRUE(CheckVirtualLocalRank(env, 2).ok());
  EXPECT_TRUE(CheckVirtualLocalRank({}, 8).ok());
  const Status status = CheckVirtualLocalRank(env, 3);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().what, testing::HasSubstr("names 2 GPUs for 3 workers"));
  const Environment none(Environment::Variables{{"CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_FALSE(CheckVirtualLocalRank(none, 1).ok());
}

TEST(VirtualLocalRank, ShowsEachWorkerItsOwnGpu) {
  Environment env(Environment::Variables{{"CUDA_VISIBLE_DEVICES", "4, GPU-ab"}});
  ShowOwnGpu(1, env);
  EXPECT_EQ(env.Get("CUDA_VISIBLE_DEVICES"), "GPU-ab");
  Environment all;
  ShowOwnGpu(1, all);
  EXPECT_EQ(all.Get("CUDA_VISIBLE_DEVICES"), "1");
}

}  // namespace
}  // namespace ddprun::launcher

#include "launcher/sweep/machine_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

TEST(DivideMachine, GivesEachRunCpusOfItsOwn) {
  const auto shares = *DivideMachine(3, 2, {0, 1, 2, 3, 8, 9, 10}, {});
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].cpus, (CpuSet{0, 1}));
  EXPECT_EQ(shares[1].cpus, (CpuSet{2, 3}));
  EXPECT_EQ(shares[2].cpus, (CpuSet{8, 9}));
  EXPECT_EQ(shares[0].gpus, std::nullopt);
  const auto few = *DivideMachine(3, 1, {4, 5}, {});
  for (const MachineShare& share : few) EXPECT_EQ(share.cpus, (CpuSet{4, 5}));
}

TEST(DivideMachine, GivesEachRunGpusOfItsOwn) {
  Devices devices;
  devices.gpus = std::vector<Gpu>(4);
  EXPECT_EQ((*DivideMachine(2, 2, {0}, devices))[1].gpus, "2,3");
  EXPECT_EQ((*DivideMachine(3, 1, {0}, devices))[2].gpus, "2");
  devices.visible_gpus = "3,1";
  EXPECT_EQ((*DivideMachine(2, 1, {0}, devices))[0].gpus, "3");
  EXPECT_EQ((*DivideMachine(2, 1, {0}, devices))[1].gpus, "1");
  const auto refused = DivideMachine(2, 2, {0}, devices);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().what, HasSubstr("need 4 GPUs; 2 are visible"));
  devices.visible_gpus = "";
  EXPECT_EQ((*DivideMachine(2, 2, {0}, devices))[1].gpus, std::nullopt);
}

}  // namespace
}  // namespace ddprun::launcher

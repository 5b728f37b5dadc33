#include "trainer/worker/rank_times.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddprun::trainer {
namespace {

std::vector<int64_t> DueSteps(int64_t logging_steps, int64_t last) {
  std::vector<int64_t> due;
  for (int64_t step = 1; step <= last; ++step) {
    if (RankTimes::IsDue(step, logging_steps)) due.push_back(step);
  }
  return due;
}

TEST(RankTimes, AreComparedBeforeReportedStepsAtMostOnceInTen) {
  EXPECT_EQ(DueSteps(1, 25), (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(DueSteps(3, 25), (std::vector<int64_t>{12, 21}));
  EXPECT_EQ(DueSteps(10, 25), (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(DueSteps(25, 60), (std::vector<int64_t>{25, 50}));
}

}  // namespace
}  // namespace ddprun::trainer

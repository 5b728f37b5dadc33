#include "trainer/parallel/bucket_search.h"

#include <gtest/gtest.h>

namespace ddprun::trainer {
namespace {

TEST(BucketSearch, TriesEveryCandidateTwiceAndSkipsTheFirstStepOfEachTurn) {
  BucketSearch search({{.limits = {.first_bytes = 0}}, {.limits = {.first_bytes = 1}}});
  std::vector<int64_t> order;
  std::vector<bool> changed;
  for (const double seconds : {9, 1, 3, 9, 7, 5, 9, 2, 6, 9, 8, 4}) {
    ASSERT_EQ(search.result(), nullptr);
    order.push_back(search.limits().first_bytes);
    changed.push_back(search.Add(seconds, nullptr));
  }
  EXPECT_EQ(order, (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(changed, (std::vector<bool>{0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1}));
  ASSERT_NE(search.result(), nullptr);
  EXPECT_EQ(search.result()->trials[0].seconds, 2.5);
  EXPECT_EQ(search.result()->trials[1].seconds, 6);
  EXPECT_EQ(search.result()->steps, 12);
  EXPECT_EQ(search.limits().first_bytes, 0);
}

TEST(BucketSearch, KeepsTheDefaultUnlessAnotherIsFasterByMoreThanNoise) {
  EXPECT_EQ(FastestTrial(std::vector<double>{1.0, 0.99, 1.5}), 0U);
  EXPECT_EQ(FastestTrial(std::vector<double>{1.0, 0.97, 0.9}), 2U);
  EXPECT_EQ(FastestTrial(std::vector<double>{1.0}), 0U);
}

}  // namespace
}  // namespace ddprun::trainer

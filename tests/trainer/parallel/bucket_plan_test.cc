#include "trainer/parallel/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;

TEST(PlanBuckets, ClosesABucketWhenItIsFullAndNeverSplitsAGradient) {
  const std::vector<GradientSize> sizes = {{40, 0}, {70, 0}, {10, 0}, {500, 0}, {20, 0}};
  const std::vector<size_t> order = {4, 3, 2, 1, 0};
  const auto buckets = PlanBuckets(sizes, order, {.first_bytes = 20, .cap_bytes = 100});
  EXPECT_THAT(buckets, ElementsAre(ElementsAre(4), ElementsAre(3), ElementsAre(2, 1, 0)));
}

TEST(PlanBuckets, KeepsTypesApartAndOrdersBucketsByTheirLastGradient) {
  const std::vector<GradientSize> sizes = {{60, 0}, {60, 1}, {60, 0}, {60, 1}};
  const std::vector<size_t> order = {0, 1, 2, 3};
  const auto buckets = PlanBuckets(sizes, order, {.first_bytes = 100, .cap_bytes = 100});
  EXPECT_THAT(buckets, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(PlanBuckets, HasNoBucketsForNoGradients) {
  EXPECT_TRUE(PlanBuckets({}, {}, {}).empty());
}

// For any sizes: each gradient once, one type per bucket, full buckets except the last of each
// type, and none larger than the cap by more than one gradient.
TEST(PlanBuckets, HoldsItsRulesOnRandomModels) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const size_t count = random() % 60;
    std::vector<GradientSize> sizes(count);
    for (auto& size : sizes)
      size = {static_cast<int64_t>(random() % 300), static_cast<int>(random() % 3)};
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    const BucketLimits limits{.first_bytes = 100, .cap_bytes = 250};
    const auto buckets = PlanBuckets(sizes, order, limits);
    std::vector<int> seen(count, 0);
    std::vector<int> not_full(3, 0);
    for (const auto& bucket : buckets) {
      ASSERT_FALSE(bucket.empty());
      int64_t bytes = 0;
      for (const size_t index : bucket) {
        ++seen[index];
        bytes += sizes[index].bytes;
        ASSERT_EQ(sizes[index].type, sizes[bucket[0]].type);
      }
      ASSERT_LT(bytes - sizes[bucket.back()].bytes, limits.cap_bytes) << "seed " << seed;
      if (bytes < limits.first_bytes) ++not_full[static_cast<size_t>(sizes[bucket[0]].type)];
    }
    for (const int times : seen) ASSERT_EQ(times, 1) << "seed " << seed;
    for (const int open : not_full) ASSERT_LE(open, 1) << "seed " << seed;
  }
}

TEST(BucketTuner, TriesEveryCandidateTwiceAndSkipsTheFirstStepOfEachTurn) {
  BucketTuner tuner(2);
  const std::vector<double> seconds = {9, 1, 3, 9, 7, 5, 9, 2, 6, 9, 8, 4};
  std::vector<size_t> order;
  for (const double step : seconds) {
    ASSERT_FALSE(tuner.Complete());
    order.push_back(tuner.Current());
    tuner.Add(step);
  }
  EXPECT_TRUE(tuner.Complete());
  EXPECT_EQ(order, (std::vector<size_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(tuner.Medians(), (std::vector<double>{2.5, 6}));
}

TEST(BucketTuner, KeepsTheDefaultUnlessAnotherIsFasterByMoreThanNoise) {
  EXPECT_EQ(FastestTrial(std::vector<double>{1.0, 0.99, 1.5}), 0U);
  EXPECT_EQ(FastestTrial(std::vector<double>{1.0, 0.97, 0.9}), 2U);
  EXPECT_EQ(FastestTrial(std::vector<double>{1.0}), 0U);
}

}  // namespace
}  // namespace ddprun::trainer

#include "trainer/report/meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddprun::trainer {
namespace {

TEST(MeanMeter, AveragesSinceTheLastReset) {
  MeanMeter meter;
  meter.Add(1);
  meter.Add(2);
  EXPECT_EQ(meter.mean(), 1.5);
  meter.Reset();
  meter.Add(5);
  EXPECT_EQ(meter.mean(), 5);
  EXPECT_EQ(meter.count(), 1);
}

TEST(MeanMeter, OfNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(MeanMeter().mean()));
}

TEST(MeanMeter, DoesNotHideADivergedLoss) {
  MeanMeter meter;
  meter.Add(1);
  meter.Add(std::nan(""));
  EXPECT_TRUE(std::isnan(meter.mean()));
}

TEST(RateMeter, WeighsByTime) {
  RateMeter meter(10);
  meter.Add(100, 1);
  meter.Add(100, 3);
  EXPECT_EQ(meter.per_second(), 50);
  EXPECT_EQ(meter.seconds_each(), 2);
}

TEST(RateMeter, ForgetsWhatLeavesTheWindow) {
  RateMeter meter(2);
  meter.Add(1, 1000);
  meter.Add(10, 1);
  meter.Add(10, 1);
  EXPECT_EQ(meter.per_second(), 10);
}

TEST(RateMeter, IsZeroBeforeTimeHasPassed) {
  RateMeter meter(2);
  EXPECT_EQ(meter.per_second(), 0);
  EXPECT_EQ(meter.seconds_each(), 0);
  meter.Add(10, 0);
  EXPECT_EQ(meter.per_second(), 0);
}

}  // namespace
}  // namespace ddprun::trainer

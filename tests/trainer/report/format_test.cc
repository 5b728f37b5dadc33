#include "trainer/report/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddprun::trainer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ShortNumber, KeepsThreeDigits) {
  EXPECT_EQ(ShortNumber(0), "0.00");
  EXPECT_EQ(ShortNumber(1.234), "1.23");
  EXPECT_EQ(ShortNumber(12.34), "12.3");
  EXPECT_EQ(ShortNumber(123.4), "123");
  EXPECT_EQ(ShortNumber(999.6), "1.00k");
  EXPECT_EQ(ShortNumber(9996), "10.0k");
  EXPECT_EQ(ShortNumber(123456), "123k");
  EXPECT_EQ(ShortNumber(1234567), "1.23M");
  EXPECT_EQ(ShortNumber(-1500), "-1.50k");
  EXPECT_EQ(ShortNumber(kInfinity), "inf");
}

TEST(Duration, GrowsWithTheTime) {
  EXPECT_EQ(Duration(0), "0:00");
  EXPECT_EQ(Duration(42.4), "0:42");
  EXPECT_EQ(Duration(59.6), "1:00");
  EXPECT_EQ(Duration(723), "12:03");
  EXPECT_EQ(Duration(3 * 3600 + 723), "3:12:03");
  EXPECT_EQ(Duration(2 * 86400 + 4 * 3600), "2d 04:00:00");
}

TEST(Duration, SaysSoWhenUnknown) {
  EXPECT_EQ(Duration(-1), "?");
  EXPECT_EQ(Duration(kInfinity), "?");
  EXPECT_EQ(Duration(std::nan("")), "?");
}

TEST(ByteText, ChangesItsUnitBeforeTheNumberGrowsLong) {
  EXPECT_EQ(ByteText(0), "0 bytes");
  EXPECT_EQ(ByteText(1023), "1023 bytes");
  EXPECT_EQ(ByteText(1024), "1.00 KiB");
  EXPECT_EQ(ByteText(1048575), "1.00 MiB");
  EXPECT_EQ(ByteText(60 << 20), "60 MiB");
  EXPECT_EQ(ByteText(5e9), "4.66 GiB");
}

TEST(LossText, ShowsDigitsThatSaySomething) {
  EXPECT_EQ(LossText(2.45134), "2.4513");
  EXPECT_EQ(LossText(0.00012345), "1.234e-04");
  EXPECT_EQ(LossText(123456.0), "1.235e+05");
  EXPECT_EQ(LossText(0), "0.0000");
  EXPECT_EQ(LossText(std::nan("")), "nan");
}

}  // namespace
}  // namespace ddprun::trainer

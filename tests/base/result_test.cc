#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/failure.h"

namespace ddprun {
namespace {

Error Broken() {
  Error error;
  error.what = "broken";
  return error;
}

Result<int> Half(int number) {
  if (number % 2 != 0) return Broken();
  return number / 2;
}

Result<int> Quarter(int number) {
  DDPRUN_ASSIGN(const int half, Half(number));
  return Half(half);
}

Status CheckEven(int number) {
  DDPRUN_TRY(number % 2 == 0 ? Status() : Status(Broken()));
  return {};
}

TEST(Result, PassesTheFirstErrorOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().what, "broken");
  EXPECT_EQ(Quarter(7).error().what, "broken");
}

TEST(Result, HoldsValuesThatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 3);
}

TEST(Status, IsSuccessOrAnError) {
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_EQ(CheckEven(3).error().what, "broken");
}

TEST(Failure, CarriesTheErrorThroughAThrow) {
  EXPECT_EQ(ValueOrThrow(Half(4)), 2);
  try {
    ValueOrThrow(Half(3));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().what, "broken");
    EXPECT_STREQ(failure.what(), "broken");
  }
}

}  // namespace
}  // namespace ddprun

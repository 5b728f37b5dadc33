#include "trainer/comm/packed_error.h"

#include <gtest/gtest.h>

namespace ddprun::trainer {
namespace {

TEST(PackedError, KeepsCodeAndTexts) {
  for (int i = 0; i <= static_cast<int>(Code::kFailed); ++i) {
    const Error error{.code = static_cast<Code>(i),
                      .title = "T",
                      .where = "there",
                      .what = "this\nthat",
                      .hint = "",
                      .page = "a-page"};
    const Error unpacked = UnpackError(PackError(error));
    EXPECT_EQ(unpacked.code, error.code) << i;
    EXPECT_EQ(Render(unpacked), Render(error));
  }
}

TEST(PackedError, LosesTheEndOfALongTextAlone) {
  const Error unpacked = UnpackError(
      PackError({.code = Code::kRankLost, .what = std::string(9999, 'x'), .page = "a-page"}));
  EXPECT_EQ(unpacked.code, Code::kRankLost);
  EXPECT_EQ(unpacked.page, "a-page");
  EXPECT_LT(unpacked.what.size(), kPackedErrorBytes);
}

TEST(PackedError, TakesAnyBytes) {
  for (const char* bytes : {"", "a", "~", "\xff", "Z\n"}) {
    EXPECT_EQ(UnpackError(bytes).page, "") << bytes;
  }
  EXPECT_EQ(UnpackError("~").code, Code::kFailed);
  EXPECT_EQ(UnpackError("").code, Code::kFailed);
}

}  // namespace
}  // namespace ddprun::trainer

#include <gtest/gtest.h>

#include "base/text.h"

namespace ddprun {
namespace {

TEST(ToAsciiLower, ChangesTheLettersAToZAndNoOtherByte) {
  EXPECT_EQ(ToAsciiLower("LayerNorm.0_@[`{"), "layernorm.0_@[`{");
  EXPECT_EQ(ToAsciiLower("AZaz"), "azaz");
  EXPECT_EQ(ToAsciiLower("\xC3\x84\xFF"), "\xC3\x84\xFF");
  EXPECT_EQ(ToAsciiLower(""), "");
}

}  // namespace
}  // namespace ddprun

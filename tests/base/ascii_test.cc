#include <gtest/gtest.h>

#include "base/text.h"

namespace ddprun {
namespace {

TEST(AsciiLower, ChangesTheLettersAToZAndNoOtherByte) {
  EXPECT_EQ(AsciiLower("LayerNorm.0_@[`{"), "layernorm.0_@[`{");
  EXPECT_EQ(AsciiLower("AZaz"), "azaz");
  EXPECT_EQ(AsciiLower("\xC3\x84\xFF"), "\xC3\x84\xFF");
  EXPECT_EQ(AsciiLower(""), "");
}

}  // namespace
}  // namespace ddprun

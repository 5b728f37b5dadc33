#include "launcher/report/text_block.h"

#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

TEST(Wrap, BreaksAtSpaces) {
  EXPECT_EQ(Wrap("one two three", 7), "one two\nthree\n");
  EXPECT_EQ(Wrap("abcdefghij kl", 4), "abcdefghij\nkl\n");
  EXPECT_EQ(Wrap("abcdefghij", 4), "abcdefghij\n");
  EXPECT_EQ(Wrap("", 4), "\n");
}

TEST(Visible, IsTheEndOfAProgressBar) {
  EXPECT_EQ(Visible("10%\r20%\r30%\r", 100), "30%");
}

TEST(Visible, ObeysNothing) {
  EXPECT_EQ(Visible("\x1b]0;title\a\x1b[2Jtext\b", 100), "text?");
}

TEST(Visible, CutsBetweenCharacters) {
  EXPECT_EQ(Visible("a\xC3\xA4z", 2), "a...");
  EXPECT_EQ(Visible("a\xC3\xA4z", 3), "a\xC3\xA4...");
}

TEST(Quote, KeepsBeginningAndEndOfALongText) {
  std::vector<std::string> lines;
  for (int i = 0; i < 10; ++i) lines.push_back(std::to_string(i));
  EXPECT_EQ(Quote(lines, 4), "  | 0\n  | ... (6 lines left out)\n  | 7\n  | 8\n  | 9\n");
  EXPECT_EQ(Quote({"a"}, 4), "  | a\n");
}

}  // namespace
}  // namespace ddprun::launcher

// Positions and carets: tabs, wide characters, line endings, long lines.
#include "trainer/config/source.h"

#include <gtest/gtest.h>

namespace ddprun::trainer {
namespace {

// The snippet and the place of `word` in `text`.
std::string Show(const std::string& text, const std::string& word) {
  const Source source{Source::Kind::kFile, "f", text};
  const size_t begin = text.find(word);
  const Span span{&source, begin, begin + word.size()};
  return Where(span) + "\n" + Snippet(span);
}

TEST(Source, CountsLinesAndColumnsFromOne) {
  EXPECT_EQ(Show("ab\ncd e", "d"), "f:2:2\n2| cd e\n    ^");
}

TEST(Source, ATabDoesNotShiftTheCaret) {
  // Tabs are expanded to every fourth column, in the shown line and under it alike.
  EXPECT_EQ(Show("\tx\ty", "y"), "f:1:4\n1|     x   y\n           ^");
}

TEST(Source, AWideCharacterTakesTwoColumnsButCountsOnce) {
  EXPECT_EQ(Show("日本 x", "x"), "f:1:4\n1| 日本 x\n        ^");
  EXPECT_EQ(Show("日本 x", "本"), "f:1:2\n1| 日本 x\n     ^^");
}

TEST(Source, ACombiningMarkTakesNoColumn) {
  EXPECT_EQ(Show("e\xCC\x81 x", "x"), "f:1:4\n1| e\xCC\x81 x\n     ^");
}

TEST(Source, AMultibyteCharacterCountsOnce) {
  EXPECT_EQ(Show("äöü x", "x"), "f:1:5\n1| äöü x\n       ^");
}

TEST(Source, ACarriageReturnIsNotPartOfTheLine) {
  EXPECT_EQ(Show("ab\r\ncd\r\n", "cd"), "f:2:1\n2| cd\n   ^^");
}

TEST(Source, ControlCharactersAndInvalidBytesAreNotSentToTheTerminal) {
  EXPECT_EQ(Show("\x1b[2J\xFF x", "x"), "f:1:7\n1| ?[2J? x\n         ^");
  EXPECT_EQ(Printable("a\x1b\xC3", 10), "a??");
}

TEST(Source, OfSeveralLinesTheFirstIsShown) {
  EXPECT_EQ(Show("a {\n}", "{\n}"), "f:1:3\n1| a {\n     ^");
}

TEST(Source, TheEndOfTheTextHasACaretBehindIt) {
  const Source source{Source::Kind::kFile, "f", "ab"};
  EXPECT_EQ(Snippet({&source, 2, 3}), "1| ab\n     ^");
}

TEST(Source, ALongLineIsCutAroundTheSpan) {
  const std::string shown = Show(std::string(1000, 'a') + "XY" + std::string(1000, 'b'), "XY");
  EXPECT_EQ(shown, "f:1:1001\n1| ..." + std::string(30, 'a') + "XY" + std::string(51, 'b') +
                       "...\n" + std::string(36, ' ') + "^^");
}

TEST(Source, ALongSpanIsCutAtItsEnd) {
  const std::string shown = Show("k: " + std::string(500, 'v'), std::string(500, 'v'));
  EXPECT_EQ(shown, "f:1:4\n1| k: " + std::string(83, 'v') + "...\n" + std::string(6, ' ') +
                       std::string(83, '^'));
}

TEST(Source, PrintableCutsToWidth) {
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace ddprun::trainer

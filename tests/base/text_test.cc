#include "base/text.h"

#include <gtest/gtest.h>

#include "base/shell_text.h"

namespace ddprun {
namespace {

TEST(MakePrintable, DropsWhatATerminalWouldObey) {
  EXPECT_EQ(MakePrintable("\x1b[1;31mred\x1b[0m"), "red");
  EXPECT_EQ(MakePrintable("\x1b]0;a title\atext"), "text");
  EXPECT_EQ(MakePrintable("\x1b]52;c;aGk=\x1b\\text"), "text");
  EXPECT_EQ(MakePrintable("\x1b(Btext\x1b"), "text");
  EXPECT_EQ(MakePrintable("\x1b]0;without an end\nnext"), "0;without an end\nnext");
}

TEST(MakePrintable, ShowsOtherControlCharactersAsQuestionMarks) {
  EXPECT_EQ(MakePrintable(std::string("a\0b\x07\x7f\xC2\x9B"
                                      "c",
                                      8)),
            "a?b???c");
  EXPECT_EQ(MakePrintable("\rover"), "?over");
}

TEST(MakePrintable, KeepsTabsLinesAndUtf8) {
  const std::string text = "a\tb\n\xC3\xA9 \xC2\xA0 \xE2\x94\x80";
  EXPECT_EQ(MakePrintable(text), text);
}

TEST(StackFrame, IsALineOfLibTorchsStack) {
  EXPECT_TRUE(IsStackFrame("frame #0: c10::Error::Error(c10::SourceLocation) + 0x98"));
  EXPECT_TRUE(IsStackFrame("frame #12: <unknown function> + 0x29d90"));
  EXPECT_FALSE(IsStackFrame("frame #: x"));
  EXPECT_FALSE(IsStackFrame("frame #1"));
  EXPECT_FALSE(IsStackFrame("a frame #1: x"));
}

TEST(CountText, HasTheFormOfItsNumber) {
  EXPECT_EQ(CountText(0, "step"), "0 steps");
  EXPECT_EQ(CountText(1, "step"), "1 step");
  EXPECT_EQ(CountText(2, "entry", "entries"), "2 entries");
}

TEST(TitleBar, FillsTheLine) {
  EXPECT_EQ(TitleBar("A", "b", 10, false), "-- A --- b\n");
  EXPECT_EQ(TitleBar("A", "", 8, false), "-- A ---\n");
  EXPECT_EQ(TitleBar("LONG TITLE", "tail", 5, false), "-- LONG TITLE  tail\n");
}

TEST(SplitLines, TakesALastLineWithoutAnEnd) {
  EXPECT_EQ(SplitLines("a\n\nb"), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(SplitLines("a\n"), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(SplitLines("").empty());
}

TEST(SplitAt, GivesEmptyPartsToo) {
  EXPECT_EQ(SplitAt(",a,", ','), (std::vector<std::string_view>{"", "a", ""}));
  EXPECT_EQ(SplitAt("", ','), std::vector<std::string_view>{""});
}

TEST(QuoteForShell, QuotesOnlyWhatAShellWouldTakeApart) {
  EXPECT_EQ(QuoteForShell("runs/toy-2_a.b"), "runs/toy-2_a.b");
  EXPECT_EQ(QuoteForShell("my run"), "'my run'");
  EXPECT_EQ(QuoteForShell("$it's"), "'$it'\\''s'");
  EXPECT_EQ(QuoteForShell(""), "''");
}

}  // namespace
}  // namespace ddprun

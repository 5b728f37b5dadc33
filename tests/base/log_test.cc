#include "base/log.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  Log Open(LogLevel level, bool time = false) {
    return Log({.name = "ddprun n3", .level = level, .time = time},
               [this](std::string_view line) { text_ += line; });
  }

  std::string text_;
};

TEST_F(LogTest, WritesPrefixMessageAndFieldsAsOneLine) {
  const Log log = Open(LogLevel::kDebug);
  log.Debug("joining");
  log.Info("joined", {{"nnodes", "4"}, {"world_size", "8"}});
  log.Warning("slow");
  log.Error("gone");
  EXPECT_EQ(text_,
            "[ddprun n3] debug: joining\n"
            "[ddprun n3] joined nnodes=4 world_size=8\n"
            "[ddprun n3] warning: slow\n"
            "[ddprun n3] error: gone\n");
}

TEST_F(LogTest, HasNothingThatATerminalObeys) {
  Open(LogLevel::kInfo).Info("node \x1b[2Jevil %v {}", {{"host", "\x1b]0;x\a"}});
  EXPECT_EQ(text_, "[ddprun n3] node evil %v {} host=\n");
}

TEST_F(LogTest, DropsLinesBelowItsLevel) {
  const Log log = Open(LogLevel::kWarning);
  log.Debug("a");
  log.Info("b");
  log.Warning("c");
  EXPECT_EQ(text_, "[ddprun n3] warning: c\n");
}

TEST_F(LogTest, BeginsLinesWithTheTimeWhenAsked) {
  Open(LogLevel::kInfo, true).Warning("slow");
  EXPECT_THAT(text_, MatchesRegex("20[0-9-]{8}T[0-9:]{8}\\.[0-9]{3}Z "
                                  "\\[ddprun n3\\] warning: slow\n"));
}

TEST_F(LogTest, WithoutANameSaysTheMessageAlone) {
  const Log log({}, [this](std::string_view line) { text_ += line; });
  log.Info("10 steps");
  log.Warning("slow");
  EXPECT_EQ(text_, "10 steps\nwarning: slow\n");
}

TEST_F(LogTest, KeepsTheLastLinesOfEveryLevelUnderTheirNames) {
  Log log = Open(LogLevel::kError);
  for (int i = 0; i < 40; ++i) log.Debug("line " + std::to_string(i));
  log.Rename("ddprun n5");
  log.Info("joined");
  const std::vector<std::string> lines = log.LastLines();
  ASSERT_EQ(lines.size(), 32U);
  EXPECT_THAT(lines.front(), MatchesRegex("20.*Z debug \\[ddprun n3\\] line 9"));
  EXPECT_THAT(lines.back(), MatchesRegex("20.*Z info \\[ddprun n5\\] joined"));
  EXPECT_EQ(text_, "");
}

TEST_F(LogTest, CopiesAllLines) {
  std::vector<std::string> copied;
  Log log = Open(LogLevel::kError);
  log.CopyTo([&](std::string_view line) { copied.emplace_back(line); });
  log.Debug("first");
  EXPECT_THAT(copied, ElementsAre(MatchesRegex("20.*Z debug \\[ddprun n3\\] first")));
}

TEST_F(LogTest, KnowsPythonsNamesOfLevels) {
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("NOTSET"), LogLevel::kInfo);
  EXPECT_EQ(ParseLogLevel("WARNING"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("warn"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("Critical"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("fatal"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("loud"), std::nullopt);
}

}  // namespace
}  // namespace ddprun

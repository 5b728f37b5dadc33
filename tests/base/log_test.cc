#include "base/log.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Log, WritesPrefixMessageAndFieldsAsOneLine) {
  std::string text;
  const Log log("ddprun n3", LogLevel::kInfo, [&](std::string_view line) { text += line; });
  log.Info("joined", {{"nnodes", "4"}, {"world_size", "8"}});
  log.Warning("slow");
  log.Error("gone");
  EXPECT_EQ(text,
            "[ddprun n3] joined nnodes=4 world_size=8\n"
            "[ddprun n3] warning: slow\n"
            "[ddprun n3] error: gone\n");
}

TEST(Log, HasNothingThatATerminalObeys) {
  std::string text;
  const Log log("p", LogLevel::kInfo, [&](std::string_view line) { text += line; });
  log.Info("node \x1b[2Jevil", {{"host", "\x1b]0;x\a"}});
  EXPECT_EQ(text, "[p] node evil host=\n");
}

TEST(Log, DropsLinesBelowItsLevel) {
  std::string text;
  const Log log("p", LogLevel::kWarning, [&](std::string_view line) { text += line; });
  log.Debug("a");
  log.Info("b");
  log.Warning("c");
  EXPECT_EQ(text, "[p] warning: c\n");
}

TEST(Log, KnowsPythonsNamesOfLevels) {
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("WARNING"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("Critical"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel(""), LogLevel::kInfo);
}

}  // namespace
}  // namespace ddprun

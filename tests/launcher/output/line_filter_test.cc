#include <gmock/gmock.h>

#include "launcher/output/lines.h"

namespace ddprun::launcher {
namespace {

TEST(LineFilter, GivesLinesThatContainAnyNeedle) {
  LineFilter filter({"loss", "error"}, "[default0]:");
  EXPECT_EQ(filter.Feed("step 1 loss 2\nhello\nan error\n"),
            "[default0]:step 1 loss 2\n[default0]:an error\n");
}

TEST(LineFilter, FindsANeedleHoweverTheStreamIsCut) {
  const std::string stream = "a\nloss 1\r\nb loss\rc";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    LineFilter filter({"loss"}, ":");
    std::string matching = filter.Feed(stream.substr(0, cut));
    matching += filter.Feed(stream.substr(cut));
    EXPECT_EQ(matching, ":loss 1\n:b loss\n") << "cut at " << cut;
  }
}

TEST(LineFilter, LooksAtTheUnfinishedLastLineToo) {
  LineFilter filter({"loss"}, "");
  EXPECT_EQ(filter.Feed("no end, loss"), "");
  EXPECT_EQ(filter.Finish(), "no end, loss\n");
  EXPECT_EQ(filter.Finish(), "");
}

TEST(LineFilter, LooksAtAnEndlessLineInPieces) {
  LineFilter filter({"loss"}, "");
  const std::string piece = "loss" + std::string(LineFilter::kMaxLineBytes, 'x');
  EXPECT_EQ(filter.Feed(piece), piece + "\n");
}

}  // namespace
}  // namespace ddprun::launcher

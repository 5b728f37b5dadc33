#include <gmock/gmock.h>

#include "launcher/output/lines.h"

namespace ddprun::launcher {
namespace {

TEST(LineLabel, StandsInFrontOfEachLine) {
  LineLabel label("[1] ");
  EXPECT_EQ(label.Put("one\n\ntwo"), "[1] one\n[1] \n[1] two");
  EXPECT_EQ(label.Put(" more\nthree\n"), " more\n[1] three\n");
}

TEST(LineLabel, ComesAgainWhenAProgressBarBeginsAgain) {
  LineLabel label("[1] ");
  EXPECT_EQ(label.Put("\r10%"), "\r[1] 10%");
  EXPECT_EQ(label.Put("\r20%\r"), "\r[1] 20%\r");
  EXPECT_EQ(label.Put("30%\n"), "[1] 30%\n");
}

TEST(LineLabel, TakesCarriageReturnAndNewlineForOneEnd) {
  const std::string stream = "one\r\ntwo\r\n";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    LineLabel label("# ");
    std::string text = label.Put(stream.substr(0, cut));
    text += label.Put(stream.substr(cut));
    EXPECT_EQ(text, "# one\r\n# two\r\n") << "cut at " << cut;
  }
}

TEST(LineLabel, ComesAgainAfterSomebodyElsesText) {
  LineLabel label("[1] ");
  EXPECT_EQ(label.Put("half "), "[1] half ");
  label.BeginAnew();
  EXPECT_EQ(label.Put("a line\n"), "[1] a line\n");
}

TEST(LineLabel, ChangesNothingWhenEmpty) {
  LineLabel label("");
  EXPECT_EQ(label.Put("one\r\n\rtwo"), "one\r\n\rtwo");
}

}  // namespace
}  // namespace ddprun::launcher

#include <gmock/gmock.h>

#include "launcher/output/lines.h"

namespace ddprun::launcher {
namespace {

TEST(LineBuffer, GivesWholeLinesAndKeepsTheRest) {
  LineBuffer buffer;
  EXPECT_EQ(buffer.Feed("ab"), "");
  EXPECT_TRUE(buffer.has_partial());
  EXPECT_EQ(buffer.Feed("c\nde\nf"), "abc\nde\n");
  EXPECT_EQ(buffer.TakePartial(), "f");
  EXPECT_FALSE(buffer.has_partial());
}

TEST(LineBuffer, GivesProgressBarsAtTheirCarriageReturn) {
  LineBuffer buffer;
  EXPECT_EQ(buffer.Feed("10%\r20"), "10%\r");
  EXPECT_EQ(buffer.Feed("%\r"), "20%\r");
}

TEST(LineBuffer, KeepsALongLineWhole) {
  LineBuffer buffer;
  const std::string line(10 << 20, 'x');
  EXPECT_EQ(buffer.Feed(line), "");
  EXPECT_EQ(buffer.Feed("\n"), line + "\n");
}

TEST(LineBuffer, GivesALineThatNeverEndsOnceItIsTooLong) {
  LineBuffer buffer;
  const std::string line(LineBuffer::kMaxPartialBytes + 1, 'x');
  EXPECT_EQ(buffer.Feed(line), line);
}

TEST(LineBuffer, LosesNoByteHoweverTheStreamIsCut) {
  const std::string stream("a\n\r\r\nb\0c\n\nprompt? ", 18);
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    LineBuffer buffer;
    std::string shown = buffer.Feed(stream.substr(0, cut));
    shown += buffer.Feed(stream.substr(cut));
    EXPECT_EQ(shown + buffer.TakePartial(), stream) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace ddprun::launcher

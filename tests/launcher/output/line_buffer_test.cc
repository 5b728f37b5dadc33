#include "launcher/output/line_buffer.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LineBuffer, GivesWholeLinesAndKeepsTheRest) {
  LineBuffer buffer(20);
  EXPECT_EQ(buffer.Feed("ab"), "");
  EXPECT_TRUE(buffer.has_partial());
  EXPECT_EQ(buffer.Feed("c\nde\nf"), "abc\nde\n");
  EXPECT_EQ(buffer.TakePartial(), "f");
  EXPECT_FALSE(buffer.has_partial());
}

TEST(LineBuffer, GivesProgressBarsAtTheirCarriageReturn) {
  LineBuffer buffer(20);
  EXPECT_EQ(buffer.Feed("10%\r20"), "10%\r");
  EXPECT_EQ(buffer.Feed("%\r"), "20%\r");
}

TEST(LineBuffer, GivesALineThatNeverEndsOnceItIsLong) {
  LineBuffer buffer(20);
  const std::string line(LineBuffer::kMaxPartialBytes + 1, 'x');
  EXPECT_EQ(buffer.Feed(line), line);
}

TEST(LineBuffer, LosesNoByteHoweverTheStreamIsCut) {
  const std::string stream("a\n\r\r\nb\0c\n\nprompt? ", 18);
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    LineBuffer buffer(20);
    std::string shown = buffer.Feed(stream.substr(0, cut));
    shown += buffer.Feed(stream.substr(cut));
    EXPECT_EQ(shown + buffer.TakePartial(), stream) << "cut at " << cut;
  }
}

TEST(LineBuffer, KeepsTheLastLinesAsTheyWereToBeSeen) {
  LineBuffer buffer(3);
  buffer.Feed("one\ntwo\r\n10%\r20%\nthree\nlast");
  EXPECT_THAT(buffer.LastLines(), ElementsAre("20%", "three", "last"));
  LineBuffer empty(3);
  EXPECT_THAT(empty.LastLines(), IsEmpty());
}

TEST(LineBuffer, CutsKeptLinesThatAreHuge) {
  LineBuffer buffer(3);
  buffer.Feed(std::string(LineBuffer::kMaxKeptLineBytes * 2, 'x') + "\n");
  EXPECT_EQ(buffer.LastLines().front().size(), LineBuffer::kMaxKeptLineBytes);
}

}  // namespace
}  // namespace ddprun::launcher

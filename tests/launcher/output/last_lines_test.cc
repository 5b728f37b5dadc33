#include "launcher/output/last_lines.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Of(std::string_view bytes) {
  return LastLines(bytes, /*cut=*/false, 3);
}

TEST(LastLines, AreTheLastOnesWithAnUnfinishedOne) {
  EXPECT_THAT(Of("one\ntwo\n\nfour\nfive"), ElementsAre("", "four", "five"));
  EXPECT_THAT(Of("one\ntwo\n"), ElementsAre("one", "two"));
  EXPECT_THAT(Of("\n"), ElementsAre(""));
  EXPECT_THAT(Of(""), IsEmpty());
}

TEST(LastLines, LeaveOutWhatACarriageReturnWroteOver) {
  EXPECT_THAT(Of("one\r\n10%\r20%\r\n\r30%\r"), ElementsAre("one", "20%", "30%"));
}

TEST(LastLines, LeaveOutControlSequences) {
  EXPECT_THAT(Of("\x1b[1;31mError\x1b[0m: \x1b[Kbad"), ElementsAre("Error: bad"));
  EXPECT_THAT(Of("cut \x1b["), ElementsAre("cut "));
}

TEST(LastLines, LeaveOutTheFramesOfAStack) {
  std::string text = "terminate called\n  what():  boom\n";
  for (int i = 0; i < 30; ++i) text += "frame #" + std::to_string(i) + ": f() + 0x1 (lib.so)\n";
  EXPECT_THAT(Of(text + "\n"), ElementsAre("terminate called", "  what():  boom", ""));
}

TEST(LastLines, CutLinesThatAreHuge) {
  EXPECT_EQ(Of(std::string(kMaxLineBytes * 2, 'x')).front().size(), kMaxLineBytes);
}

TEST(LastLines, LeaveOutHalfALineAtTheBeginning) {
  EXPECT_THAT(LastLines("lf\nwhole", /*cut=*/true, 3), ElementsAre("whole"));
  EXPECT_THAT(LastLines("only this", /*cut=*/true, 3), ElementsAre("only this"));
}

TEST(Tail, HoldsTheLastBytesInBoundedMemory) {
  Tail tail;
  tail.Add("begin\n");
  EXPECT_FALSE(tail.cut());
  for (int i = 0; i < 100; ++i) tail.Add(std::string(5000, 'x') + "\n");
  tail.Add("end\n");
  EXPECT_TRUE(tail.cut());
  EXPECT_LE(tail.bytes().size(), 2 * Tail::kBytes);
  EXPECT_TRUE(tail.bytes().ends_with("x\nend\n"));
  tail.Add(std::string(3 * Tail::kBytes, 'y') + "z");
  EXPECT_EQ(tail.bytes(), std::string(Tail::kBytes - 1, 'y') + "z");
}

}  // namespace
}  // namespace ddprun::launcher

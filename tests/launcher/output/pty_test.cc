#include "launcher/output/pty.h"

#include <sys/ioctl.h>

#include "tests/launcher/output/pipe.h"

namespace ddprun::launcher {
namespace {

TEST(Pty, IsATerminalThatPassesBytesOnUnchanged) {
  Result<Pty> pty = OpenPty(-1);
  ASSERT_TRUE(pty);
  EXPECT_EQ(::isatty(pty->workers.get()), 1);
  const std::string bytes("a\nb\r\n\x03\x04\x11\x13\0z", 12);
  WriteText(pty->workers.get(), bytes);
  pty->workers.reset();
  EXPECT_EQ(ReadAll(pty->ours.get()), bytes);
}

TEST(Pty, DoesNotSendBackWhatWeWrite) {
  Result<Pty> pty = OpenPty(-1);
  ASSERT_TRUE(pty);
  WriteText(pty->ours.get(), "typed\n");
  WriteText(pty->workers.get(), "printed");
  pty->workers.reset();
  EXPECT_EQ(ReadAll(pty->ours.get()), "printed");
}

winsize SizeOf(const Result<Pty>& pty) {
  winsize size{};
  EXPECT_EQ(::ioctl(pty->workers.get(), TIOCGWINSZ, &size), 0);
  return size;
}

TEST(Pty, HasTheSizeOfTheTerminalItIsLikeWithRoomForTheLabel) {
  Result<Pty> real = OpenPty(-1);
  ASSERT_TRUE(real);
  const winsize wide{.ws_row = 7, .ws_col = 133, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(real->workers.get(), TIOCSWINSZ, &wide), 0);
  Result<Pty> copy = OpenPty(real->workers.get());
  ASSERT_TRUE(copy);
  EXPECT_EQ(SizeOf(copy).ws_row, 7);
  EXPECT_EQ(SizeOf(copy).ws_col, 133);
  const winsize narrow{.ws_row = 7, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(real->workers.get(), TIOCSWINSZ, &narrow), 0);
  ASSERT_TRUE(FollowSize(copy->ours.get(), real->workers.get(), "[1] ").ok());
  EXPECT_EQ(SizeOf(copy).ws_col, 56);
  ASSERT_EQ(::ioctl(real->workers.get(), TIOCSWINSZ, &wide), 0);
  EXPECT_EQ(SizeOf(OpenPty(real->workers.get(), "[12] ")).ws_col, 128);
  EXPECT_EQ(SizeOf(OpenPty(real->workers.get(), "\x1b[36m[1]\x1b[0m ")).ws_col, 129);
  EXPECT_EQ(SizeOf(OpenPty(real->workers.get(), std::string(200, '#'))).ws_col, 133);
}

}  // namespace
}  // namespace ddprun::launcher

#include "launcher/output/stream_writer.h"

#include <signal.h>
#include <sys/resource.h>

#include <cstdio>

#include "launcher/output/pty.h"
#include "tests/launcher/output/pipe.h"

namespace ddprun::launcher {
namespace {

const int kOwners[2] = {};
const void* const kA = &kOwners[0];
const void* const kB = &kOwners[1];

TEST(StreamWriter, WaitsForASlowReaderAndLosesNothing) {
  asio::io_context io;
  Pipe shown;
  StreamWriter writer(io, shown.write_end.get());
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  writer.Write(kA, text);
  bool empty = false;
  writer.WhenEmpty([&] { empty = true; });
  EXPECT_FALSE(empty);
  std::string read;
  ASSERT_EQ(::fcntl(shown.read_end.get(), F_SETFL, O_NONBLOCK), 0);
  while (!empty) {
    read += ReadAll(shown.read_end.get());
    io.run_one();
  }
  EXPECT_EQ(read + Written(shown), text);
}

TEST(StreamWriter, TellsWritersToPauseUntilThereIsRoom) {
  asio::io_context io;
  Pipe shown;
  StreamWriter writer(io, shown.write_end.get());
  writer.Write(kA, std::string(3 << 20, 'x'));
  ASSERT_TRUE(writer.IsFull());
  bool resumed = false;
  writer.WhenRoom([&] { resumed = true; });
  ASSERT_EQ(::fcntl(shown.read_end.get(), F_SETFL, O_NONBLOCK), 0);
  while (!resumed) {
    ReadAll(shown.read_end.get());
    io.run_one();
  }
  EXPECT_FALSE(writer.IsFull());
}

TEST(StreamWriter, BeginsOurLinesOnALineOfTheirOwn) {
  asio::io_context io;
  Pipe shown;
  StreamWriter writer(io, shown.write_end.get());
  writer.WriteLines("first\n");
  writer.Write(kA, "progress 10%\r");
  writer.WriteLines("report\n");
  writer.WriteLines("");
  EXPECT_EQ(Written(shown), "first\nprogress 10%\r\nreport\n");
}

TEST(StreamWriter, EndsOnesUnfinishedLineBeforeAnothersText) {
  asio::io_context io;
  Pipe shown;
  StreamWriter writer(io, shown.write_end.get());
  writer.Write(kA, "half ");
  EXPECT_TRUE(writer.ContinuesLineOf(kA));
  writer.Write(kA, "a line");
  writer.Write(kB, "whole\n");
  EXPECT_FALSE(writer.ContinuesLineOf(kA));
  writer.Write(kA, "rest\n");
  EXPECT_EQ(Written(shown), "half a line\nwhole\nrest\n");
}

TEST(StreamWriter, LetsNobodyContinueTheLineOfOneThatHasGone) {
  asio::io_context io;
  Pipe shown;
  StreamWriter writer(io, shown.write_end.get());
  writer.Write(kA, "last words");
  writer.Forget(kA);
  EXPECT_FALSE(writer.ContinuesLineOf(kA));
  writer.Write(kA, "another at the same address\n");
  EXPECT_EQ(Written(shown), "last words\nanother at the same address\n");
}

TEST(StreamWriter, ErasesAProgressBarOnATerminalAndEndsTheLastOne) {
  asio::io_context io;
  Result<Pty> terminal = OpenPty(-1);
  ASSERT_TRUE(terminal);
  StreamWriter writer(io, terminal->workers.get());
  EXPECT_TRUE(writer.is_terminal());
  writer.Write(kA, "10%\r20%");
  writer.Write(kB, "line\n");
  writer.Write(kA, "\r30%\n");
  writer.Write(kB, "no bar");
  writer.Write(kA, "\n");
  writer.Write(kA, "\r40%");
  writer.WhenEmpty([] {});
  terminal->workers.reset();
  EXPECT_EQ(ReadAll(terminal->ours.get()), "10%\r20%\r\x1b[Kline\n\r30%\nno bar\n\n\r40%\n");
}

TEST(StreamWriter, GoesOnWithoutAReader) {
  ::signal(SIGPIPE, SIG_IGN);
  asio::io_context io;
  Pipe shown;
  StreamWriter writer(io, shown.write_end.get());
  shown.read_end.reset();
  std::vector<int> errors;
  writer.OnLost([&](int error) { errors.push_back(error); });
  writer.Write(kA, "nobody reads this");
  writer.Write(kA, "nor this");
  EXPECT_TRUE(writer.closed());
  EXPECT_EQ(errors, std::vector<int>{EPIPE});
  bool empty = false;
  writer.WhenEmpty([&] { empty = true; });
  EXPECT_TRUE(empty);
}

// The limit stands for a full disk.
TEST(StreamWriter, WritesToAFileAgainOnceThereIsRoom) {
  ::signal(SIGXFSZ, SIG_IGN);
  asio::io_context io;
  FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  StreamWriter writer(io, ::fileno(file));
  std::vector<int> errors;
  writer.OnLost([&](int error) { errors.push_back(error); });
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{4, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  writer.WriteLines("one\n");
  writer.WriteLines("lost\n");
  writer.WriteLines("lost\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  writer.WriteLines("two\n");
  EXPECT_EQ(errors, std::vector<int>{EFBIG});
  char text[16] = {};
  EXPECT_EQ(::pread(::fileno(file), text, sizeof text, 0), 8);
  EXPECT_STREQ(text, "one\ntwo\n");
  std::fclose(file);
}

TEST(Console, HasOneWriterForOneFile) {
  asio::io_context io;
  Pipe shown;
  Pipe other;
  Console same(io, shown.write_end.get(), shown.write_end.get());
  EXPECT_EQ(&same.out(), &same.err());
  Console two(io, other.write_end.get(), shown.write_end.get());
  EXPECT_NE(&two.out(), &two.err());
  two.out().Write(kA, "out");
  two.err().Write(kA, "err");
  bool empty = false;
  two.WhenEmpty([&] { empty = true; });
  EXPECT_TRUE(empty);
  EXPECT_EQ(Written(other), "out");
  EXPECT_EQ(Written(shown), "err");
}

}  // namespace
}  // namespace ddprun::launcher

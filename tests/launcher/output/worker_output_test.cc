#include "launcher/output/worker_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

void WriteText(const UniqueFd& fd, const std::string& text) {
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(WorkerStderr, PassesEverythingOnAndKeepsTheLastLines) {
  asio::io_context io;
  Pipe shown;
  Pipe worker;
  StderrWriter writer(io, shown.write_end.get());
  WorkerStderr output(io, std::move(worker.read_end), writer);
  WriteText(worker.write_end, "one\ntwo");
  worker.write_end.reset();
  io.run();
  shown.write_end.reset();
  EXPECT_EQ(ReadAll(shown.read_end.get()), "one\ntwo");
  EXPECT_THAT(output.LastLines(), ElementsAre("one", "two"));
}

TEST(WorkerStderr, FinishTakesWhatIsThereWithoutWaiting) {
  asio::io_context io;
  Pipe shown;
  Pipe worker;
  StderrWriter writer(io, shown.write_end.get());
  WorkerStderr output(io, std::move(worker.read_end), writer);
  WriteText(worker.write_end, "last words");
  output.Finish();
  shown.write_end.reset();
  EXPECT_EQ(ReadAll(shown.read_end.get()), "last words");
}

TEST(StderrWriter, WaitsForASlowReaderAndLosesNothing) {
  asio::io_context io;
  Pipe shown;
  StderrWriter writer(io, shown.write_end.get());
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  writer.Write(text);
  bool empty = false;
  writer.WhenEmpty([&] { empty = true; });
  EXPECT_FALSE(empty);
  std::string read;
  ASSERT_EQ(::fcntl(shown.read_end.get(), F_SETFL, O_NONBLOCK), 0);
  while (!empty) {
    read += ReadAll(shown.read_end.get());
    io.run_one();
  }
  shown.write_end.reset();
  read += ReadAll(shown.read_end.get());
  EXPECT_EQ(read, text);
}

TEST(StderrWriter, BeginsOurLinesOnALineOfTheirOwn) {
  asio::io_context io;
  Pipe shown;
  StderrWriter writer(io, shown.write_end.get());
  writer.WriteLines("first\n");
  writer.Write("progress 10%\r");
  writer.WriteLines("report\n");
  writer.WriteLines("");
  shown.write_end.reset();
  EXPECT_EQ(ReadAll(shown.read_end.get()), "first\nprogress 10%\r\nreport\n");
}

TEST(StderrWriter, GoesOnWithoutAReader) {
  ::signal(SIGPIPE, SIG_IGN);
  asio::io_context io;
  Pipe shown;
  StderrWriter writer(io, shown.write_end.get());
  shown.read_end.reset();
  writer.Write("nobody reads this");
  bool empty = false;
  writer.WhenEmpty([&] { empty = true; });
  EXPECT_TRUE(empty);
}

}  // namespace
}  // namespace ddprun::launcher

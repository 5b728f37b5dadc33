#include "launcher/output/worker_stream.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>

#include "launcher/output/pty.h"
#include "tests/launcher/output/pipe.h"

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;

class WorkerStreamTest : public testing::Test {
 protected:
  std::shared_ptr<WorkerStream> Start(Pipe& worker, std::string label = "") {
    return WorkerStream::Start(io_, std::move(worker.read_end),
                               {.console = &writer_, .label = std::move(label)});
  }

  asio::io_context io_;
  Pipe shown_;
  StreamWriter writer_{io_, shown_.write_end.get()};
};

TEST_F(WorkerStreamTest, PassesEverythingOnAndKeepsTheLastLines) {
  Pipe worker;
  const auto stream = Start(worker);
  WriteText(worker.write_end.get(), "one\ntwo");
  worker.write_end.reset();
  io_.run();
  EXPECT_EQ(Written(shown_), "one\ntwo");
  EXPECT_THAT(stream->LastLines(), ElementsAre("one", "two"));
  EXPECT_EQ(stream->bytes_seen(), 7U);
}

TEST_F(WorkerStreamTest, FinishTakesWhatIsThereWithoutWaiting) {
  Pipe worker;
  const auto stream = Start(worker);
  WriteText(worker.write_end.get(), "last words");
  stream->Finish();
  EXPECT_EQ(Written(shown_), "last words");
}

// A wake takes time from the workers where they use all cores.
TEST_F(WorkerStreamTest, ALineAfterAPauseWakesTheLoopOnce) {
  Pipe worker;
  const auto stream = Start(worker);
  for (const char* line : {"one\n", "two\n"}) {
    const uint64_t seen = stream->bytes_seen();
    WriteText(worker.write_end.get(), line);
    while (stream->bytes_seen() == seen) io_.run_one();
    EXPECT_EQ(io_.run_for(std::chrono::milliseconds(20)), 0U);
  }
}

TEST_F(WorkerStreamTest, LinesInQuickSuccessionAreTakenTogether) {
  Pipe worker;
  const auto stream = Start(worker);
  WriteText(worker.write_end.get(), "one\n");
  while (stream->bytes_seen() == 0) io_.run_one();
  WriteText(worker.write_end.get(), "two\n");
  WriteText(worker.write_end.get(), "three\n");
  worker.write_end.reset();
  io_.run();
  EXPECT_EQ(Written(shown_), "one\ntwo\nthree\n");
}

TEST_F(WorkerStreamTest, NeverMixesTheLinesOfTwoWorkers) {
  Pipe a;
  Pipe b;
  const auto stream_a = Start(a);
  const auto stream_b = Start(b);
  WriteText(a.write_end.get(), "a1 ");
  WriteText(b.write_end.get(), "b1 ");
  io_.poll();
  WriteText(b.write_end.get(), "b2\n");
  b.write_end.reset();
  stream_b->Finish();
  WriteText(a.write_end.get(), "a2\n");
  stream_a->Finish();
  EXPECT_EQ(Written(shown_), "b1 b2\na1 a2\n");
}

TEST_F(WorkerStreamTest, ShowsAnUnfinishedLineWhenItsWorkerFallsQuiet) {
  Pipe a;
  Pipe b;
  const auto stream_a = Start(a, "[0] ");
  const auto stream_b = Start(b, "[1] ");
  WriteText(a.write_end.get(), "prompt? ");
  while (!writer_.ContinuesLineOf(stream_a.get())) io_.run_one();
  WriteText(b.write_end.get(), "line\n");
  stream_b->Finish();
  WriteText(a.write_end.get(), "yes\n");
  stream_a->Finish();
  EXPECT_EQ(Written(shown_), "[0] prompt? \n[1] line\n[0] yes\n");
}

// As tqdm draws them: '\r' and then text, which is shown when nothing follows.
TEST_F(WorkerStreamTest, KeepsTheBarsOfTwoWorkersOnOneLineOfATerminal) {
  Result<Pty> terminal = OpenPty(-1);
  ASSERT_TRUE(terminal);
  StreamWriter screen(io_, terminal->workers.get());
  Pipe ends[2];
  std::shared_ptr<WorkerStream> streams[2];
  for (int i = 0; i < 2; ++i) {
    streams[i] = WorkerStream::Start(io_, std::move(ends[i].read_end), {.console = &screen});
  }
  ASSERT_EQ(::fcntl(terminal->ours.get(), F_SETFL, O_NONBLOCK), 0);
  std::string seen;
  for (const std::string text : {"10%", "20%", "30%"}) {
    for (const Pipe& end : ends) WriteText(end.write_end.get(), "\r" + text);
    while (seen.find(text) == seen.rfind(text)) {  // until both have been drawn
      io_.run_one();
      seen += ReadAll(terminal->ours.get());
    }
  }
  EXPECT_EQ(seen.find('\n'), std::string::npos) << seen;
}

TEST_F(WorkerStreamTest, ReadsATerminalToItsEnd) {
  Result<Pty> pty = OpenPty(-1);
  ASSERT_TRUE(pty);
  const auto stream = WorkerStream::Start(io_, std::move(pty->ours), {.console = &writer_});
  WriteText(pty->workers.get(), "one\ntwo");
  pty->workers.reset();
  io_.run();
  EXPECT_EQ(Written(shown_), "one\ntwo");
}

TEST_F(WorkerStreamTest, ClosesAWorkersOutputThatNobodyReads) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe worker;
  const auto stream = WorkerStream::Start(io_, std::move(worker.read_end),
                                          {.console = &writer_, .ends_with_console = true});
  shown_.read_end.reset();
  WriteText(worker.write_end.get(), "line\n");
  io_.run();
  EXPECT_EQ(::write(worker.write_end.get(), "more", 4), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(WorkerStreamTest, CanGoWhileEventsArePending) {
  Pipe worker;
  auto stream = Start(worker);
  WriteText(worker.write_end.get(), "unfinished");
  io_.run_one();
  WriteText(worker.write_end.get(), " more");
  stream.reset();
  io_.run();
  EXPECT_EQ(Written(shown_), "");
}

TEST_F(WorkerStreamTest, PausesAWorkerWhileTheConsoleIsFull) {
  Pipe worker;
  const auto stream = Start(worker);
  writer_.Write(nullptr, std::string(3 << 20, 'x'));
  WriteText(worker.write_end.get(), "line\n");
  // Nothing but the retries of the blocked console goes on.
  io_.run_for(std::chrono::milliseconds(30));
  EXPECT_LE(stream->bytes_seen(), 5U);
  ASSERT_TRUE(writer_.IsFull());
  WriteText(worker.write_end.get(), std::string(1000, 'y'));
  io_.run_for(std::chrono::milliseconds(30));
  EXPECT_LE(stream->bytes_seen(), 5U);
}

}  // namespace
}  // namespace ddprun::launcher

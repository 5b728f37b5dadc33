#include "launcher/report/failure_report.h"

#include <gmock/gmock.h>
#include <signal.h>

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

WorkerRecord Worker(int rank, ProcessExit exit) {
  WorkerRecord worker;
  worker.rank = rank;
  worker.local_rank = rank;
  worker.pid = 100 + rank;
  worker.exit = exit;
  return worker;
}

FailureReport Report(WorkerRecord first) {
  FailureReport report;
  report.program = "train.py";
  report.host = "node1";
  report.time = "2026-11-21_00:24:56";
  report.first = std::move(first);
  return report;
}

TEST(FailureReport, ShowsTheFirstFailureWithTorchrunsFields) {
  WorkerRecord first = Worker(1, Exited{7});
  first.last_lines = {"Traceback", "ValueError: boom"};
  FailureReport report = Report(first);
  WorkerRecord stopped = Worker(0, Signaled{SIGTERM});
  stopped.told_to_stop = true;
  stopped.ended_after = milliseconds(12);
  report.others = {stopped};
  EXPECT_EQ(RenderFailure(report, /*color=*/false),
            "-- WORKER FAILED ------------------------------------------------------------------ "
            "train.py\n"
            "Rank 1 exited with code 7.\n"
            "  time      : 2026-11-21_00:24:56\n"
            "  host      : node1\n"
            "  rank      : 1 (local_rank: 1)\n"
            "  exitcode  : 7 (pid: 101)\n"
            "  error_file: <N/A>\n"
            "Its last lines on stderr:\n"
            "  | Traceback\n"
            "  | ValueError: boom\n"
            "The other workers of this node, stopped by ddprun:\n"
            "  rank 0 (local_rank: 0, pid: 100) was killed by SIGTERM after 12 ms\n"
            "See docs/errors.md#worker-failed\n");
}

TEST(FailureReport, ExplainsSignals) {
  const std::string text = RenderFailure(Report(Worker(0, Signaled{SIGKILL})), false);
  EXPECT_THAT(text, HasSubstr("Rank 0 was killed by SIGKILL: "));
  EXPECT_THAT(text, HasSubstr("memory ran out"));
  EXPECT_THAT(text, HasSubstr("exitcode  : -9 (pid: 100)"));
  EXPECT_THAT(RenderFailure(Report(Worker(0, Signaled{SIGSEGV, true})), false),
              HasSubstr("SIGSEGV (core dumped)"));
}

TEST(FailureReport, PrefersTheErrorFileToTheLastLines) {
  WorkerRecord first = Worker(0, Exited{1});
  first.last_lines = {"noise"};
  first.error_file = "/tmp/job/0/error.json";
  first.error = WorkerError{"ValueError: x", "", 0};
  const std::string text = RenderFailure(Report(first), false);
  EXPECT_THAT(text, HasSubstr("  | ValueError: x\n"));
  EXPECT_THAT(text, HasSubstr("error_file: /tmp/job/0/error.json"));
  EXPECT_THAT(text, Not(HasSubstr("noise")));
}

TEST(FailureReport, TellsVictimsFromWorkersThatEndedByThemselves) {
  FailureReport report = Report(Worker(0, Exited{1}));
  WorkerRecord by_itself = Worker(1, Exited{1});
  by_itself.ended_after = milliseconds(1500);
  WorkerRecord before = Worker(2, Exited{0});
  before.ended_after = milliseconds(-5);
  WorkerRecord stuck = Worker(3, Exited{0});
  stuck.exit.reset();
  report.others = {by_itself, before, stuck};
  const std::string text = RenderFailure(report, false);
  EXPECT_THAT(text,
              HasSubstr("rank 1 (local_rank: 1, pid: 101) exited with code 1 by itself 1.5 s"));
  EXPECT_THAT(text, HasSubstr("exited with code 0 before that"));
  EXPECT_THAT(text, HasSubstr("rank 3 (local_rank: 3, pid: 103) does not end"));
}

TEST(FailureReport, StaysOnOneScreenWithManyWorkers) {
  FailureReport report = Report(Worker(0, Exited{1}));
  for (int rank = 1; rank < 64; ++rank) report.others.push_back(Worker(rank, Exited{1}));
  EXPECT_THAT(RenderFailure(report, false), HasSubstr("  and 47 more\n"));
}

TEST(FailureReport, IsColouredOnRequestOnly) {
  EXPECT_THAT(RenderFailure(Report(Worker(0, Exited{1})), true), StartsWith("\033["));
}

TEST(Summary, IsOneLine) {
  EXPECT_EQ(Summarize(Worker(3, Signaled{SIGABRT}), "node1"),
            "rank 3 (local_rank: 3, pid: 103) on node1 was killed by SIGABRT");
}

TEST(ProcessExit, BecomesAnExitCodeAsInAShell) {
  EXPECT_EQ(ExitCode(Exited{7}), 7);
  EXPECT_EQ(ExitCode(Signaled{SIGKILL}), 137);
  EXPECT_EQ(SignalName(SIGKILL), "SIGKILL");
  EXPECT_EQ(SignalName(50), "signal 50");
}

}  // namespace
}  // namespace ddprun::launcher

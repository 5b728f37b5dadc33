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
  EXPECT_EQ(RenderFailure(report, {}),
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
            "The other workers of this node:\n"
            "  rank 0 (local_rank: 0, pid: 100) was killed by SIGTERM when told to stop (12 ms)\n"
            "More: ddprun explain worker-failed\n");
}

TEST(FailureReport, ShowsTheLastLogLinesOfAWorkerThatASignalEnded) {
  WorkerRecord first = Worker(1, Signaled{SIGSEGV});
  first.last_log = {"a", "b", "c", "d"};
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("Its last log lines:\n  | b\n  | c\n  | d\nMore:"));
  first.exit = Exited{1};
  EXPECT_THAT(RenderFailure(Report(first), {}), Not(HasSubstr("log lines")));
}

TEST(FailureReport, ExplainsSignals) {
  const std::string text = RenderFailure(Report(Worker(0, Signaled{SIGKILL})), {});
  EXPECT_THAT(text, HasSubstr("Rank 0 was killed by SIGKILL: "));
  EXPECT_THAT(text, HasSubstr("memory ran out"));
  EXPECT_THAT(text, HasSubstr("exitcode  : -9 (pid: 100)"));
  EXPECT_THAT(RenderFailure(Report(Worker(0, Signaled{SIGSEGV, true})), {}),
              HasSubstr("SIGSEGV (core dumped)"));
}

TEST(FailureReport, PrefersTheErrorFileToTheLastLines) {
  WorkerRecord first = Worker(0, Exited{1});
  first.last_lines = {"noise"};
  first.error_file = "/tmp/job/0/error.json";
  first.error = WorkerError{"ValueError: x", "", 0};
  const std::string text = RenderFailure(Report(first), {});
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
  const std::string text = RenderFailure(report, {});
  EXPECT_THAT(text,
              HasSubstr("rank 1 (local_rank: 1, pid: 101) exited with code 1 by itself 1.5 s"));
  EXPECT_THAT(text, HasSubstr("exited with code 0 before that"));
  EXPECT_THAT(text, HasSubstr("rank 3 (local_rank: 3, pid: 103) does not end"));
}

TEST(FailureReport, StaysOnOneScreenWithManyWorkers) {
  FailureReport report = Report(Worker(0, Exited{1}));
  for (int rank = 1; rank < 64; ++rank) report.others.push_back(Worker(rank, Exited{1}));
  EXPECT_THAT(RenderFailure(report, {}), HasSubstr("  and 47 more\n"));
}

TEST(FailureReport, NamesOtherCausesBeforeWhatFollowedFromTheFirst) {
  FailureReport report = Report(Worker(0, Exited{1}));
  WorkerRecord stopped = Worker(1, Signaled{SIGTERM});
  stopped.told_to_stop = true;
  report.others = {stopped, Worker(2, Exited{3})};
  const std::string text = RenderFailure(report, {});
  EXPECT_LT(text.find("rank 2 (local"), text.find("rank 1 (local"));
}

TEST(FailureReport, RepeatsOneLineOfWhatStandsRightAboveIt) {
  WorkerRecord first = Worker(0, Exited{1});
  for (int i = 0; i < 20; ++i) first.last_lines.push_back("line " + std::to_string(i));
  EXPECT_THAT(RenderFailure(Report(first), {}), HasSubstr("| line 0\n"));
  first.lines_shown = true;
  FailureReport report = Report(first);
  EXPECT_THAT(RenderFailure(report, {}),
              HasSubstr("It printed this error; the whole stands above:\n  | line 19\nMore"));
  // The output of the other workers has moved the error out of sight.
  report.others = {Worker(1, Exited{1})};
  report.others[0].last_lines.assign(21, "noise");
  EXPECT_THAT(RenderFailure(report, {}), HasSubstr("| line 0\n"));
}

TEST(FailureReport, RefersToTheErrorThatWasPrintedAndLeftInTheErrorFile) {
  WorkerRecord first = Worker(0, Exited{1});
  first.error_file = "/tmp/job/0/error.json";
  first.error = WorkerError{"-- BAD DATA --- a.csv\nRow 3 is short.\nFill it.\n", "", 0};
  first.last_lines = {"-- BAD DATA --- a.csv", "Row 3 is short.", "Fill it."};
  EXPECT_THAT(RenderFailure(Report(first), {}), HasSubstr("It left this message:\n  | -- BAD"));
  first.lines_shown = true;
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("stands above:\n  | Row 3 is short.\nMore"));
}

TEST(FailureReport, DoesNotRepeatAnErrorOfAllRanksThatAnotherRankHasPrinted) {
  WorkerRecord first = Worker(1, Exited{2});
  first.error = WorkerError{.message = "-- STATE DOES NOT FIT -- step-4\nIt is another run's."};
  FailureReport report = Report(first);
  WorkerRecord printer = Worker(0, Exited{2});
  printer.last_lines = {"-- STATE DOES NOT FIT -- step-4", "It is another run's."};
  report.others = {printer};
  EXPECT_THAT(RenderFailure(report, {}), HasSubstr("It left this message:"));
  report.others[0].lines_shown = true;
  const std::string text = RenderFailure(report, {});
  EXPECT_THAT(text, HasSubstr("Rank 0 printed this error; the whole stands above:\n"
                              "  | It is another run's.\nThe other"));
  EXPECT_THAT(text, Not(HasSubstr("STATE DOES NOT FIT")));
}

TEST(FailureReport, SaysOfOthersThatTheyHadTheSameError) {
  FailureReport report = Report(Worker(0, Exited{1}));
  report.first.last_lines = {"Traceback", "ValueError: boom"};
  report.others = {Worker(1, Exited{1}), Worker(2, Exited{1})};
  report.others[0].last_lines = {"ValueError: boom"};
  const std::string text = RenderFailure(report, {});
  EXPECT_THAT(text, HasSubstr("pid: 101) exited with code 1 by itself 0 ms later with the same"));
  EXPECT_THAT(text, HasSubstr("pid: 102) exited with code 1 by itself 0 ms later\n"));
}

TEST(FailureReport, ShowsTheStackOfASignalOnceUnderItsOwnHeading) {
  WorkerRecord first = Worker(1, Signaled{SIGSEGV});
  first.lines_shown = true;
  first.last_lines = {"bin/trainer(+0x4)[0x5]", "libwaves.so(+0x1)[0x7f]",
                      "Stack of rank 1 at SIGSEGV, by name:", "  waves::Read(long) (libwaves.so)",
                      "  main (trainer)"};
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("error_file: <N/A>\nIt was in these functions:\n"
                        "  |   waves::Read(long) (libwaves.so)\n  |   main (trainer)\nMore"));
  first.last_lines.insert(first.last_lines.begin(), {"reading", "Stack of rank 1 at SIGSEGV:"});
  const std::string text = RenderFailure(Report(first), {});
  EXPECT_THAT(text, HasSubstr("on stderr:\n  | reading\nIt was in these functions:\n"));
  EXPECT_THAT(text, Not(HasSubstr("Stack of")));
}

TEST(FailureReport, ShowsTheWordsOfACppExceptionAndNotItsFrames) {
  WorkerRecord first = Worker(0, Signaled{SIGABRT});
  first.lines_shown = true;
  first.last_lines = {"terminate called after throwing an instance of 'c10::Error'",
                      "  what():  mat1 and mat2 shapes cannot be multiplied",
                      "Exception raised from meta at a.cpp:1 (most recent call first):", ""};
  EXPECT_THAT(RenderFailure(Report(first), {}), HasSubstr("  |   what():  mat1 and mat2"));
  first.error = WorkerError{"words\nframe #0: f() + 0x1 (lib.so)\nend\n", "", 0};
  EXPECT_THAT(RenderFailure(Report(first), {}), HasSubstr("  | words\n  | end\n"));
}

TEST(FailureReport, RepeatsTheFirstLineOfAPythonExceptionOfSeveral) {
  WorkerRecord first = Worker(0, Exited{1});
  first.lines_shown = true;
  first.last_lines = {"Traceback (most recent call last):",
                      "  File \"a.py\", line 3, in <module>",
                      "    net.load_state_dict(state)",
                      "RuntimeError: Error(s) in loading state_dict for Net:",
                      "\tMissing key(s) in state_dict: \"a.weight\".",
                      "and so on"};
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("stands above:\n  | RuntimeError: Error(s) in loading state_dict for"));
}

TEST(FailureReport, RepeatsAnExceptionOfAGroupAndNotTheLineBelow) {
  WorkerRecord first = Worker(0, Exited{1});
  first.lines_shown = true;
  first.last_lines = {"  + Exception Group Traceback (most recent call last):",
                      "  |   File \"a.py\", line 3, in <module>",
                      "  | ExceptionGroup: many (2 sub-exceptions)",
                      "  +-+---------------- 1 ----------------",
                      "    | ValueError: a",
                      "    +---------------- 2 ----------------",
                      "    | TypeError: b",
                      "    +------------------------------------"};
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("stands above:\n  |     | TypeError: b\nMore"));
}

TEST(FailureReport, RepeatsWhatHeadsAStackAndNotItsEnd) {
  WorkerRecord first = Worker(0, Signaled{SIGSEGV});
  first.lines_shown = true;
  first.last_lines = {"Fatal Python error: Segmentation fault", "", "  File \"a.py\", line 3"};
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("stands above:\n  | Fatal Python error: Segmentation fault\nMore"));
}

TEST(FailureReport, SaysWhichPythonLackedAModule) {
  FailureReport report = Report(Worker(0, Exited{1}));
  report.first.last_lines = {"ModuleNotFoundError: No module named 'torch'"};
  EXPECT_THAT(RenderFailure(report, {}), Not(HasSubstr("PYTHON_EXEC")));
  report.interpreter = "/usr/bin/python3";
  EXPECT_THAT(RenderFailure(report, {}), HasSubstr("\nIt was run by /usr/bin/python3; PYTHON"));
  report.first.last_lines = {"ValueError: x"};
  EXPECT_THAT(RenderFailure(report, {}), Not(HasSubstr("PYTHON_EXEC")));
}

TEST(FailureReport, SaysWhomARankHasLeftWaiting) {
  WorkerRecord first = Worker(1, Exited{0});
  first.left = "rank 0 waiting for it in barrier 3";
  EXPECT_THAT(RenderFailure(Report(first), {.columns = 200}),
              HasSubstr("Rank 1 exited with code 0 and left rank 0 waiting for it in barrier 3. "
                        "All ranks have to call the same collectives.\n"));
}

TEST(FailureReport, GivesEvidenceInsteadOfGuesses) {
  WorkerRecord first = Worker(0, Signaled{SIGKILL});
  first.out_of_memory = OutOfMemory{true, "the kernel killed it"};
  EXPECT_THAT(RenderFailure(Report(first), {.columns = 200}),
              HasSubstr("Rank 0 was killed by SIGKILL: the kernel killed it. Give each rank "));
  first.exit = Exited{1};
  first.out_of_memory->what = "meanwhile something";
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("Rank 0 exited with code 1. Meanwhile something. Give each rank less "));
  first.core_dump = "its core should be /tmp/core";
  EXPECT_THAT(RenderFailure(Report(first), {}), HasSubstr("core      : its core should be"));
  EXPECT_THAT(RenderFailure(Report(first), {}), Not(HasSubstr("gpu  ")));
  first.gpu = "0000:3b:00.0: Fake GPU";
  EXPECT_THAT(RenderFailure(Report(first), {}),
              HasSubstr("  gpu       : 0000:3b:00.0: Fake GPU\n"));
}

TEST(FailureReport, SaysWhatAShellMeansByItsExitCode) {
  EXPECT_THAT(RenderFailure(Report(Worker(0, Exited{139})), {}), HasSubstr("SIGSEGV"));
  EXPECT_THAT(RenderFailure(Report(Worker(0, Exited{255})), {}),
              HasSubstr("Rank 0 exited with code 255.\n"));
}

TEST(FailureReport, SaysWhatTheOthersWaitedFor) {
  FailureReport report = Report(Worker(0, Exited{1}));
  report.others = {Worker(1, Signaled{SIGTERM})};
  report.others[0].told_to_stop = true;
  report.others[0].last_activity = "in all_reduce 41 for 3.2 s";
  EXPECT_THAT(RenderFailure(report, {}), HasSubstr("until then in all_reduce 41 for 3.2 s\n"));
}

TEST(FailureReport, OfAnotherNodeNamesThatNode) {
  WorkerRecord first = Worker(3, Exited{7});
  first.last_lines = {"boom"};
  const std::string text = RenderPeerFailure(Report(first), 1, {});
  EXPECT_THAT(text, StartsWith("-- ANOTHER NODE FAILED "));
  EXPECT_THAT(text, HasSubstr("Rank 3 on node1 (node 1) exited with code 7.\n"));
  EXPECT_THAT(text, HasSubstr("exitcode  : 7 (pid: 103)"));
  EXPECT_THAT(text, HasSubstr("  | boom\n"));
}

TEST(FailureReport, HasWhatTheGroupsOfNcclRecorded) {
  WorkerRecord first = Worker(0, Signaled{SIGABRT});
  first.nccl = {"What NCCL recorded:", "rank 1 has not come"};
  const std::string record = "\nWhat NCCL recorded:\nrank 1 has not come\n";
  EXPECT_THAT(RenderFailure(Report(first), {}), HasSubstr(record));
  EXPECT_THAT(RenderPeerFailure(Report(first), 1, {}), HasSubstr(record));
  EXPECT_THAT(RenderAttemptFailure(first, "node1"), HasSubstr(record));
}

TEST(AttemptFailure, TakesThreeLinesAtMost) {
  WorkerRecord first = Worker(1, Signaled{SIGSEGV});
  first.last_lines = {"before", "boom", ""};
  first.core_dump = "no core was dumped";
  EXPECT_EQ(RenderAttemptFailure(first, "node1"),
            "rank 1 (local_rank: 1, pid: 101) on node1 was killed by SIGSEGV\n"
            "its last words: boom\n"
            "no core was dumped\n");
  first = Worker(1, Exited{1});
  first.error = WorkerError{"ValueError: x\nmore", "", 0};
  EXPECT_EQ(RenderAttemptFailure(first, "node1"),
            "rank 1 (local_rank: 1, pid: 101) on node1 exited with code 1\n"
            "its last words: ValueError: x\n");
}

TEST(FailureReport, IsColouredOnRequestOnly) {
  EXPECT_THAT(RenderFailure(Report(Worker(0, Exited{1})), {.color = true}), StartsWith("\033["));
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

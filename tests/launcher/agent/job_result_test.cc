#include "launcher/agent/job_result.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "base/stop_signals.h"

namespace ddprun::launcher {
namespace {

using rendezvous::RoundEnd;

RoundEnd EndedBy(int node, RoundEnd::Kind kind = RoundEnd::Kind::kJobFailed) {
  return {.kind = kind, .node_rank = node, .message = "rank 9 exited", .exit_code = 42};
}

TEST(JobExitCode, IsZeroWhenNothingWentWrong) {
  EXPECT_EQ(JobExitCode({}), 0);
}

TEST(JobExitCode, IsTheFirstFailingWorkersOwn) {
  EXPECT_EQ(JobExitCode({.first_failure = Exited{7}}), 7);
  EXPECT_EQ(JobExitCode({.first_failure = Signaled{SIGSEGV}}), 128 + SIGSEGV);
  EXPECT_EQ(JobExitCode({.round_end = EndedBy(0), .first_failure = Exited{7}}), 7);
}

TEST(JobExitCode, IsThatOfTheNodeThatEndedTheJobFirst) {
  const JobCauses causes{.round_end = EndedBy(1), .first_failure = Exited{7}};
  EXPECT_TRUE(EndedElsewhere(causes));
  EXPECT_EQ(JobExitCode(causes), 42);
}

TEST(JobExitCode, OfAJobStoppedWhileItRestartsIsTheSignals) {
  const JobCauses causes{.round_end = EndedBy(0, RoundEnd::Kind::kRestart),
                         .first_failure = Exited{7},
                         .stop_signal = SIGTERM};
  EXPECT_FALSE(EndedByOwnWorker(causes));
  EXPECT_EQ(JobExitCode(causes), 128 + SIGTERM);
}

TEST(JobExitCode, OfAStoppedJobIsTheWorkersOnlyWhereNoOtherNodeHasAnother) {
  EXPECT_EQ(JobExitCode({.stop_signal = SIGTERM}), 143);
  EXPECT_EQ(JobExitCode({.stop_signal = SIGTERM, .stopped_code = 75}), 75);
  EXPECT_EQ(JobExitCode({.several_nodes = true, .stop_signal = SIGTERM, .stopped_code = 75}), 143);
}

// SIGTERM and the like: 75; from the keyboard: 130.
TEST(JobExitCode, OfWorkersThatSaveIsWhatTheyHaveMadeOfTheStop) {
  EXPECT_EQ(JobExitCode({.stopped_code = 75, .ended_well = true, .saves = true}), 75);
  EXPECT_EQ(JobExitCode({.stop_signal = SIGUSR1, .saves = true}), 75);
  EXPECT_EQ(JobExitCode({.stop_signal = SIGINT, .saves = true}), 130);
  EXPECT_EQ(JobExitCode({.stop_signal = SIGQUIT, .saves = true}), 131);
  // They were at their last step, or were killed.
  EXPECT_EQ(JobExitCode({.stop_signal = SIGTERM, .ended_well = true, .saves = true}), 0);
  EXPECT_EQ(
      JobExitCode(
          {.stop_signal = SIGTERM, .stopped_code = 75, .failed_to_save = true, .saves = true}),
      143);
}

TEST(JobExitCode, OfAStopIsTheSameOnAllNodesUnlessTheRunIsDone) {
  RoundEnd stopped = EndedBy(1);
  stopped.exit_code = 75;
  JobCauses causes{
      .several_nodes = true, .round_end = stopped, .failed_to_save = true, .saves = true};
  EXPECT_EQ(JobExitCode(causes), 75);
  causes.ended_well = true;
  EXPECT_EQ(JobExitCode(causes), 0);
  causes.round_end = EndedBy(1);
  EXPECT_EQ(JobExitCode(causes), 42);
}

TEST(SaveSignal, SaysWhetherTheJobGoesOn) {
  EXPECT_EQ(SaveSignal({.stop_signal = SIGUSR1}), SIGUSR1);
  EXPECT_EQ(SaveSignal({.stop_signal = SIGHUP}), SIGTERM);
  EXPECT_EQ(SaveSignal({.round_end = EndedBy(1)}), SIGTERM);
  RoundEnd warned = EndedBy(1);
  warned.message = "node 1 (node2, pid 7) was stopped by SIGUSR2";
  EXPECT_EQ(SaveSignal({.round_end = warned}), SIGUSR2);
  warned.message = "node 1 (node2, pid 7) was stopped by SIGINT";
  EXPECT_EQ(SaveSignal({.round_end = warned}), SIGTERM);
  const RoundEnd anew = EndedBy(-1, RoundEnd::Kind::kRegroup);
  EXPECT_EQ(SaveSignal({.round_end = anew}), kRejoinSignal);
  EXPECT_EQ(SaveSignal({.round_end = anew, .stop_signal = SIGTERM}), SIGTERM);
}

TEST(StopsGently, UnlessSomebodyIsGoneForWhomTheOthersWouldWait) {
  EXPECT_TRUE(StopsGently({.stop_signal = SIGTERM}));
  EXPECT_FALSE(StopsGently({.stop_signal = SIGQUIT}));
  EXPECT_FALSE(StopsGently({.round_end = EndedBy(1), .stop_signal = SIGTERM}));
  EXPECT_FALSE(StopsGently({.round_end = EndedBy(1, RoundEnd::Kind::kRegroup)}));
  EXPECT_TRUE(StopsGently({.round_end = EndedBy(-1, RoundEnd::Kind::kRegroup)}));
}

TEST(JobExitCode, OfARefusedConfigIsTheTemplates) {
  EXPECT_EQ(JobExitCode({.error = Error{}, .refusal = 2}), 2);
  EXPECT_EQ(JobExitCode({.error = Error{.code = Code::kRendezvous,
                                        .title = "",
                                        .where = "",
                                        .what = "",
                                        .hint = "",
                                        .page = ""}}),
            3);
}

TEST(StyledExitCode, KnowsOnlyWhatTorchrunKnowsIfAsked) {
  EXPECT_EQ(StyledExitCode(143, ExitCodeStyle::kWorker), 143);
  EXPECT_EQ(StyledExitCode(143, ExitCodeStyle::kTorchrun), 1);
  EXPECT_EQ(StyledExitCode(2, ExitCodeStyle::kTorchrun), 2);
  EXPECT_EQ(StyledExitCode(0, ExitCodeStyle::kTorchrun), 0);
}

}  // namespace
}  // namespace ddprun::launcher

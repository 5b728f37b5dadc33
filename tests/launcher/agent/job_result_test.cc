#include "launcher/agent/job_result.h"

#include <gtest/gtest.h>
#include <signal.h>

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

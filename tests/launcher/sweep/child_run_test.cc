#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "launcher/sweep/sweep_run.h"

namespace ddprun::launcher {
namespace {

TEST(ChildRun, ReturnsWhatTheRunReturns) {
  EXPECT_EQ(RunInChild([] { return 7; })->exit_code, 7);
}

TEST(ChildRun, HasTheCodeOfAShellForSignals) {
  const auto end = RunInChild([] {
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(end->exit_code, 128 + SIGKILL);
  EXPECT_FALSE(end->stop_signal.has_value());
}

TEST(ChildRun, PassesOnWhatStopsIt) {
  const auto end = RunInChild([] {
    // The signal goes the long way round: to the parent, and from there to this process.
    ::kill(::getppid(), SIGTERM);
    while (true) ::pause();
    return 0;
  });
  EXPECT_EQ(end->exit_code, 128 + SIGTERM);
  EXPECT_EQ(end->stop_signal, SIGTERM);
}

}  // namespace
}  // namespace ddprun::launcher

#include "launcher/sweep/child_runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <set>
#include <utility>

namespace ddprun::launcher {
namespace {

TEST(ChildRuns, ReturnWhatTheRunReturns) {
  EXPECT_EQ(RunInChild([] { return 7; })->exit_code, 7);
}

TEST(ChildRuns, HaveTheCodeOfAShellForSignals) {
  const ChildEnd end = *RunInChild([] {
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(end.exit_code, 128 + SIGKILL);
  EXPECT_FALSE(end.stop_signal.has_value());
}

TEST(ChildRuns, PassOnWhatStopsThem) {
  const ChildEnd end = *RunInChild([] {
    // The signal goes the long way round: to the parent, and from there to this process.
    ::kill(::getppid(), SIGTERM);
    while (true) ::pause();
    return 0;
  });
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_EQ(end.stop_signal, SIGTERM);
}

// Each child waits for the other, so neither would end if they did not run at the same time.
TEST(ChildRuns, RunAtTheSameTime) {
  std::array<int, 2> to_first{};
  std::array<int, 2> to_second{};
  ASSERT_EQ(::pipe(to_first.data()), 0);
  ASSERT_EQ(::pipe(to_second.data()), 0);
  const auto meet = [](int reads, int writes) {
    char byte = 'x';
    return ::write(writes, &byte, 1) == 1 && ::read(reads, &byte, 1) == 1;
  };
  ChildRuns children;
  ASSERT_TRUE(children.Start(3, [&] { return meet(to_first[0], to_second[1]) ? 5 : 1; }).ok());
  ASSERT_TRUE(children.Start(4, [&] { return meet(to_second[0], to_first[1]) ? 6 : 1; }).ok());
  EXPECT_EQ(children.running(), 2U);
  std::set<std::pair<size_t, int>> ended;
  for (int i = 0; i < 2; ++i) {
    const ChildRuns::Ended one = children.Wait();
    ended.emplace(one.number, one.end.exit_code);
  }
  EXPECT_EQ(ended, (std::set<std::pair<size_t, int>>{{3, 5}, {4, 6}}));
  EXPECT_EQ(children.running(), 0U);
  for (const int fd : {to_first[0], to_first[1], to_second[0], to_second[1]}) ::close(fd);
}

TEST(ChildRuns, StopAllOnASignalAndWhenTheyAreNotWaitedFor) {
  const auto forever = [] {
    while (true) ::pause();
    return 0;
  };
  {
    ChildRuns children;
    ASSERT_TRUE(children.Start(0, forever).ok());
    ASSERT_TRUE(children.Start(1, forever).ok());
    ::kill(::getpid(), SIGINT);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(children.Wait().end.exit_code, 128 + SIGINT);
    EXPECT_EQ(children.stop_signal(), SIGINT);
    ASSERT_TRUE(children.Start(2, forever).ok());
  }  // would wait for ever
}

}  // namespace
}  // namespace ddprun::launcher

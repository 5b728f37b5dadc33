#include "launcher/process/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;
using Meaning = StopSignalPolicy::Meaning;

const std::chrono::steady_clock::time_point kStart{std::chrono::hours(1)};

TEST(StopSignalPolicy, TakesSignalsCloseTogetherForOne) {
  StopSignalPolicy policy;
  EXPECT_EQ(policy.Classify(SIGTERM, kStart), Meaning::kStop);
  EXPECT_EQ(policy.Classify(SIGTERM, kStart + milliseconds(10)), Meaning::kRepeat);
  EXPECT_EQ(policy.Classify(SIGTERM, kStart + milliseconds(499)), Meaning::kRepeat);
}

TEST(StopSignalPolicy, HurriesAtTheNextRequest) {
  StopSignalPolicy policy;
  EXPECT_EQ(policy.Classify(SIGTERM, kStart), Meaning::kStop);
  EXPECT_EQ(policy.Classify(SIGTERM, kStart + milliseconds(10)), Meaning::kRepeat);
  EXPECT_EQ(policy.Classify(SIGTERM, kStart + milliseconds(500)), Meaning::kHurry);
}

TEST(StopSignalPolicy, KnowsThatSlurmSendsSeveral) {
  StopSignalPolicy policy(/*under_slurm=*/true);
  EXPECT_EQ(policy.Classify(SIGUSR1, kStart), Meaning::kStop);
  EXPECT_EQ(policy.Classify(SIGTERM, kStart + std::chrono::seconds(40)), Meaning::kRepeat);
  EXPECT_EQ(policy.Classify(SIGINT, kStart + std::chrono::seconds(41)), Meaning::kHurry);
}

TEST(SignalMask, DropsWhatComesTooLate) {
  const SignalMask mask;
  ::raise(SIGTERM);
}

TEST(SignalMask, PutsEverythingBack) {
  struct sigaction before {};
  struct sigaction after {};
  sigset_t mask_before;
  sigset_t mask_after;
  ::sigaction(SIGPIPE, nullptr, &before);
  ::sigprocmask(SIG_BLOCK, nullptr, &mask_before);
  {
    const SignalMask mask;
    sigset_t now;
    ::sigprocmask(SIG_BLOCK, nullptr, &now);
    EXPECT_EQ(::sigismember(&now, SIGTERM), 1);
    EXPECT_EQ(::sigismember(&now, SIGCHLD), 1);
  }
  ::sigaction(SIGPIPE, nullptr, &after);
  ::sigprocmask(SIG_BLOCK, nullptr, &mask_after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  EXPECT_EQ(::sigismember(&mask_after, SIGTERM), ::sigismember(&mask_before, SIGTERM));
}

TEST(SignalMask, LeavesIgnoredSignalsIgnored) {
  const auto original = ::signal(SIGHUP, SIG_IGN);
  const SignalMask mask;
  EXPECT_EQ(::sigismember(&mask.blocked(), SIGHUP), 0);
  EXPECT_EQ(::sigismember(&mask.blocked(), SIGTERM), 1);
  ::signal(SIGHUP, original);
}

TEST(SignalReader, TellsTheSignalAndItsSender) {
  asio::io_context io;
  const SignalMask mask;
  int got = 0;
  pid_t from = 0;
  const auto reader = SignalReader::Create(io, mask, [&](int signal, pid_t sender) {
    got = signal;
    from = sender;
    io.stop();
  });
  ASSERT_TRUE(reader.has_value());
  ::kill(::getpid(), SIGUSR1);
  io.run();
  EXPECT_EQ(got, SIGUSR1);
  EXPECT_EQ(from, ::getpid());
}

}  // namespace
}  // namespace ddprun::launcher

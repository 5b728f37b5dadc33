#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/last_words.h"

namespace ddprun {
namespace {

class CrashStackDeathTest : public ::testing::TestWithParam<int> {};

TEST_P(CrashStackDeathTest, PrintsFramesAndStillEndsByTheSignal) {
  EXPECT_EXIT(
      {
        // A sanitizer handles some of them itself.
        std::signal(GetParam(), SIG_DFL);
        PrintStackOnCrash();
        raise(GetParam());
      },
      testing::KilledBySignal(GetParam()),
      "Stack of this process at SIG" + std::string(sigabbrev_np(GetParam())) +
          ":.*\n.*base_test.*\\[0x");
}

INSTANTIATE_TEST_SUITE_P(Signals,
                         CrashStackDeathTest,
                         ::testing::Values(SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV));

TEST(CrashStackOfHandledDeathTest, NamesTheProcess) {
  EXPECT_EXIT(
      {
        std::signal(SIGABRT, SIG_DFL);
        PrintStackOnCrash();
        NameInStacks("rank 12");
        raise(SIGABRT);
      },
      testing::KilledBySignal(SIGABRT), "Stack of rank 12 at SIGABRT:\n");
}

[[gnu::noinline]] int SumUpTo(int count) {
  if (count == 0) return raise(SIGSEGV);
  return count + SumUpTo(count - 1);
}

TEST(CrashStackOfHandledDeathTest, NamesFunctionsThatTheProgramDoesNotExport) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);
        PrintStackOnCrash();
        SumUpTo(2);
      },
      testing::KilledBySignal(SIGSEGV),
      "Stack of this process at SIGSEGV, by name:\n(.*\n)*.*SumUpTo\\(int\\).* \\(base_test\\)");
}

[[gnu::noinline]] void ThrowAnError() {
  throw std::runtime_error("no");
}

TEST(CrashStackOfHandledDeathTest, BeginsWithTheFunctionThatThrew) {
  const auto throw_through = []() noexcept { ThrowAnError(); };
  EXPECT_EXIT(
      {
        std::signal(SIGABRT, SIG_DFL);
        PrintStackOnCrash();
        throw_through();
      },
      testing::KilledBySignal(SIGABRT), "by name:\n  [^\n]*ThrowAnError\\(\\) ");
}

TEST(CrashStackOfHandledDeathTest, LeavesAHandledSignalAlone) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { _exit(7); });
        PrintStackOnCrash();
        raise(SIGSEGV);
      },
      testing::ExitedWithCode(7), "^$");
}

}  // namespace
}  // namespace ddprun

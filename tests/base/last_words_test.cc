#include "base/last_words.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>

#include "base/failure.h"

namespace ddprun {
namespace {

Error WordsFor(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    return CurrentError();
  }
  return {};
}

TEST(LastWords, SayWhatWasThrown) {
  EXPECT_EQ(WordsFor([] { throw Failure(SystemError("making room", 28)); }).what,
            "making room: No space left on device");
  EXPECT_EQ(WordsFor([] { throw std::runtime_error("out of luck"); }).what, "out of luck");
  EXPECT_EQ(WordsFor([] { throw 3; }).what, "no std::exception, but an object of type int");
}

TEST(LastWords, LeaveOutTheFramesOfC10) {
  const char* const text =
      "Expected a tensor\nException raised from f at a.cpp:3 (most recent call first):\n"
      "frame #0: c10::Error::Error(...)\nframe #1: main\n";
  EXPECT_EQ(WordsFor([&] { throw std::runtime_error(text); }).what,
            "Expected a tensor\nException raised from f at a.cpp:3");
}

class LastWordsDeathTest : public testing::Test {
 protected:
  // The uncaught exception of a thread: no test framework catches it.
  template <typename Throw>
  void ThrowUncaught(const Throw& body) {
    std::signal(SIGABRT, SIG_DFL);
    setenv("TORCHELASTIC_ERROR_FILE", file_.c_str(), 1);
    ReportUncaughtExceptions();
    std::thread(body).join();
  }
  void TearDown() override { std::filesystem::remove(file_); }

  const std::string file_ = testing::TempDir() + "last_words." + std::to_string(getpid());
};

TEST_F(LastWordsDeathTest, OfAnUncaughtFailureAreItsTextAndExitStatus) {
  const auto body = [] {
    Error error = SystemError("making room", 28);
    error.code = Code::kUsage;
    throw Failure(error);
  };
  EXPECT_EXIT(ThrowUncaught(body), testing::ExitedWithCode(2),
              "making room: No space left on device");
  const auto written = ReadErrorFile(file_);
  ASSERT_TRUE(written.has_value());
  EXPECT_NE(written->message.find("making room"), std::string::npos);
}

TEST_F(LastWordsDeathTest, OfAnyOtherExceptionAreItsTextAndAnAbort) {
  EXPECT_EXIT(ThrowUncaught([] { throw std::runtime_error("out of luck"); }),
              testing::KilledBySignal(SIGABRT), "out of luck");
  EXPECT_TRUE(ReadErrorFile(file_).has_value());
}

TEST_F(LastWordsDeathTest, AreThoseOfAnOwnHandler) {
  const auto own = [] {
    std::set_terminate([] { _exit(7); });
    ReportUncaughtExceptions();
    std::terminate();
  };
  EXPECT_EXIT(own(), testing::ExitedWithCode(7), "^$");
}

}  // namespace
}  // namespace ddprun

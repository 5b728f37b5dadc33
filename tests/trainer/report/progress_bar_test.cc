#include "trainer/report/progress_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace ddprun::trainer {
namespace {

ProgressState State(int64_t step) {
  return {.step = step,
          .max_steps = 500,
          .loss = 2.4513,
          .per_second = 12300,
          .rate_is_tokens = true,
          .seconds_left = 42};
}

TEST(RenderProgress, ShowsBarNumbersAndTimeLeft) {
  EXPECT_EQ(RenderProgress(State(210), 100),
            " 42% |################------------------------| 210/500  loss 2.4513  12.3k tokens/s  "
            "left 0:42");
}

TEST(RenderProgress, TheBarTakesWhatIsLeft) {
  EXPECT_EQ(RenderProgress(State(210), 70),
            " 42% |######---------| 210/500  loss 2.4513  12.3k tokens/s  left 0:42");
}

TEST(RenderProgress, WhereItIsNarrowTheBarGoesFirst) {
  EXPECT_EQ(RenderProgress(State(210), 60), " 42% 210/500  loss 2.4513  12.3k tokens/s  left 0:42");
  EXPECT_EQ(RenderProgress(State(210), 45), " 42% 210/500  loss 2.4513  12.3k tokens/s");
  EXPECT_EQ(RenderProgress(State(210), 27), " 42% 210/500  loss 2.4513");
}

TEST(RenderProgress, NeverExceedsTheWidth) {
  for (size_t columns = 0; columns < 150; ++columns) {
    for (const int64_t step : {0, 1, 499, 500, 501}) {
      EXPECT_LE(RenderProgress(State(step), columns).size(), columns);
    }
  }
}

TEST(RenderProgress, IsFullAtTheEnd) {
  EXPECT_EQ(RenderProgress(State(500), 70).substr(0, 22), "100% |###############|");
}

TEST(RenderProgress, NoStepsAreNoDivisionByZero) {
  EXPECT_EQ(RenderProgress({.seconds_left = -1}, 60).substr(0, 6), "  0% |");
}

class ProgressBarTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC), 0); }
  void TearDown() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  std::string Written() {
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(ends_[0], buffer.data(), buffer.size());
    return count > 0 ? std::string(buffer.data(), static_cast<size_t>(count)) : "";
  }

  std::array<int, 2> ends_{};
};

const std::string kClear = "\r\x1b[K";

TEST_F(ProgressBarTest, RedrawsAtMostTenTimesASecond) {
  ProgressBar bar(ends_[1]);
  bar.Update(State(1), 10.00);
  EXPECT_EQ(Written(), kClear + RenderProgress(State(1), 79));
  bar.Update(State(2), 10.05);
  EXPECT_EQ(Written(), "");
  bar.Update(State(3), 10.11);
  EXPECT_EQ(Written(), kClear + RenderProgress(State(3), 79));
}

TEST_F(ProgressBarTest, TheLastStepIsAlwaysDrawn) {
  ProgressBar bar(ends_[1]);
  bar.Update(State(499), 10.00);
  Written();
  bar.Update(State(500), 10.01);
  EXPECT_EQ(Written(), kClear + RenderProgress(State(500), 79));
}

TEST_F(ProgressBarTest, ClearsOnlyWhatWasDrawn) {
  ProgressBar bar(ends_[1]);
  bar.Clear();
  EXPECT_EQ(Written(), "");
  bar.Update(State(1), 1);
  Written();
  bar.Clear();
  bar.Clear();
  EXPECT_EQ(Written(), kClear);
}

TEST_F(ProgressBarTest, FinishLeavesTheLine) {
  {
    ProgressBar bar(ends_[1]);
    bar.Finish(State(500));
  }
  EXPECT_EQ(Written(), kClear + RenderProgress(State(500), 79) + "\n");
}

}  // namespace
}  // namespace ddprun::trainer

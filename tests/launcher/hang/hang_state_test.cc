#include "launcher/hang/hang_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Workers 1, 2, ... are looked at every second, by a clock of our own; the timeout is five.
class HangStateTest : public testing::Test {
 protected:
  void SetUp() override {
    for (pid_t pid = 1; pid <= 2; ++pid) samples_.push_back({.pid = pid});
    Look();
  }
  bool Look(milliseconds after = seconds(1)) {
    now_ += after;
    return state_.Add(HangState::Time(now_), samples_);
  }
  // How many looks it takes until they hang; 100: they do not.
  int LooksUntilHang(const std::function<void()>& before_each = [] {}) {
    for (int looks = 1; looks < 100; ++looks) {
      before_each();
      if (Look()) return looks;
    }
    return 100;
  }
  FlightSnapshot& Flight(size_t worker) {
    if (!samples_[worker].flight) samples_[worker].flight.emplace();
    return *samples_[worker].flight;
  }

  milliseconds now_{0};
  HangState state_{seconds(5), seconds(1)};
  std::vector<WorkerSample> samples_;
};

TEST_F(HangStateTest, TellsAfterTheTimeoutWithoutAnyMovement) {
  EXPECT_EQ(LooksUntilHang(), 5);
  EXPECT_EQ(state_.still_for(), seconds(5));
}

TEST_F(HangStateTest, SeesAWorkerComputeInSilence) {
  EXPECT_EQ(LooksUntilHang([&] { samples_[1].cpu_time += milliseconds(100); }), 100);
  EXPECT_EQ(state_.StillFor(1), seconds(99));
  EXPECT_EQ(state_.StillFor(2), seconds(0));
}

// An idle interpreter's threads wake up now and then.
TEST_F(HangStateTest, IgnoresTheCpuTimeOfWaiting) {
  EXPECT_EQ(LooksUntilHang([&] { samples_[1].cpu_time += milliseconds(10); }), 5);
}

TEST_F(HangStateTest, SeesOutput) {
  EXPECT_EQ(LooksUntilHang([&] { samples_[0].output_bytes += 1; }), 100);
  EXPECT_EQ(state_.SilentFor(1), seconds(0));
  EXPECT_EQ(state_.SilentFor(2), seconds(99));
}

TEST_F(HangStateTest, SeesACollectiveAStepAndABatch) {
  Flight(0).phase = WorkerPhase::kTraining;
  EXPECT_EQ(LooksUntilHang([&] { ++Flight(0).started; }), 100);
  EXPECT_EQ(LooksUntilHang([&] { ++Flight(0).step; }), 100);
  EXPECT_EQ(LooksUntilHang([&] { ++Flight(0).progress; }), 100);
}

// A rank that waits in a collective may spin, and a thread of it may print that it waits.
TEST_F(HangStateTest, DoesNotTakeSpinningForMovementInTraining) {
  for (size_t worker = 0; worker < 2; ++worker) Flight(worker).phase = WorkerPhase::kTraining;
  Look();
  EXPECT_EQ(LooksUntilHang([&] {
              samples_[0].cpu_time += seconds(1);
              samples_[0].output_bytes += 10;
            }),
            5);
}

TEST_F(HangStateTest, CountsCpuTimeBeforeTheFirstStep) {
  Flight(0).phase = WorkerPhase::kStarting;
  EXPECT_EQ(LooksUntilHang([&] { samples_[0].cpu_time += seconds(1); }), 100);
}

TEST_F(HangStateTest, DoesNotTakeSpinningForMovementInAFirstCollective) {
  Flight(0).collectives.emplace_back().state = CollectiveState::kWaiting;
  Look();
  EXPECT_EQ(LooksUntilHang([&] { samples_[0].cpu_time += seconds(1); }), 5);
}

TEST_F(HangStateTest, TakesTheEndOfAWorkerForMovement) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(Look());
  samples_.pop_back();
  EXPECT_EQ(LooksUntilHang(), 6);
}

TEST_F(HangStateTest, TakesANewWorkerForMovement) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(Look());
  samples_.push_back({.pid = 3});
  EXPECT_EQ(LooksUntilHang(), 6);
}

// The agent was stopped, or the machine asleep, and its workers perhaps as well.
TEST_F(HangStateTest, DoesNotCountTimeInWhichItDidNotLook) {
  EXPECT_FALSE(Look(seconds(3600)));
  EXPECT_EQ(LooksUntilHang(), 3);
}

TEST_F(HangStateTest, NeverTellsOfAGroupWithoutWorkers) {
  samples_.clear();
  EXPECT_EQ(LooksUntilHang(), 100);
}

}  // namespace
}  // namespace ddprun::launcher

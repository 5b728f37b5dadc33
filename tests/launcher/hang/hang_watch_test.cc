#include "launcher/hang/hang_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

namespace ddprun::launcher {
namespace {

// A worker that does nothing at all.
class HangWatchTest : public testing::Test {
 protected:
  HangWatchTest() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) pause();
    }
  }
  ~HangWatchTest() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  asio::io_context io_;
  LoopClock clock_{io_};
  const pid_t pid_;
  std::optional<HangReport> report_;
};

TEST_F(HangWatchTest, ReportsTheWorkerThatDoesNothing) {
  HangSources sources;
  sources.workers = [&] { return std::vector<LiveWorker>{{4, 0, pid_, 17}}; };
  const HangWatch watch(clock_, std::chrono::milliseconds(300), std::move(sources),
                        [&](const HangReport& report) { report_ = report; });
  io_.run();  // returns when the watch has told and stopped looking
  ASSERT_TRUE(report_.has_value());
  EXPECT_GE(report_->still_for, std::chrono::milliseconds(300));
  ASSERT_EQ(report_->activities.size(), 1U);
  EXPECT_EQ(report_->activities[0].rank, 4);
  EXPECT_EQ(report_->activities[0].place.state, 'S');
}

TEST_F(HangWatchTest, NamesARankThatHasEndedWhenNoLivingOneStandsOut) {
  HangSources sources;
  sources.workers = [&] { return std::vector<LiveWorker>{{4, 0, pid_, 17}}; };
  sources.ended = [] { return std::vector<LiveWorker>{{5, 1, 1 << 22, 0}}; };
  const HangWatch watch(clock_, std::chrono::milliseconds(300), std::move(sources),
                        [&](const HangReport& report) { report_ = report; });
  io_.run();
  ASSERT_TRUE(report_.has_value());
  EXPECT_EQ(report_->culprit.ranks, std::vector<int>{5});
  EXPECT_EQ(report_->culprit.reason, "has ended with code 0");
}

TEST_F(HangWatchTest, WarnsOnceOfADeadLinkBeforeTheTimeoutIsOver) {
  HangSources sources;
  sources.workers = [&] { return std::vector<LiveWorker>{{4, 0, pid_, 17}}; };
  sources.readers.dead_links = [](auto) { return std::vector<DeadLink>{{4, "a:1", "b:2", 9, 5}}; };
  std::vector<std::string> lines;
  sources.on_dead_link = [&](const std::string& line) {
    EXPECT_FALSE(report_.has_value());
    lines.push_back(line);
  };
  const HangWatch watch(clock_, std::chrono::milliseconds(300), std::move(sources),
                        [&](const HangReport& report) { report_ = report; });
  io_.run();
  ASSERT_TRUE(report_.has_value());
  EXPECT_EQ(report_->dead_links.size(), 1U);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find(" s: b:2 does not acknowledge what rank 4 sends"), std::string::npos);
}

TEST_F(HangWatchTest, ReadsTheFlightRecorder) {
  const UniqueFd file = *CreateFlightRecorderFile(1);
  const auto recorder = *FlightRecorder::Attach(file, 0, 4);
  const Collective barrier{.kind = CollectiveKind::kBarrier, .number = 9};
  const uint64_t ticket = recorder->Schedule(barrier);
  recorder->Start(ticket, barrier);
  recorder->SetWaiting(ticket, true);
  HangSources sources;
  // It prints all the time, but is in a collective.
  sources.workers = [&, bytes = uint64_t{0}]() mutable {
    return std::vector<LiveWorker>{{4, 0, pid_, ++bytes}};
  };
  const auto flight = *FlightReader::Open(file, 1);
  sources.flight = flight.get();
  const HangWatch watch(clock_, std::chrono::milliseconds(300), std::move(sources),
                        [&](const HangReport& report) { report_ = report; });
  io_.run();
  ASSERT_TRUE(report_.has_value());
  ASSERT_TRUE(report_->activities[0].flight.has_value());
  EXPECT_EQ(LastCollective(*report_->activities[0].flight)->number, 9U);
}

}  // namespace
}  // namespace ddprun::launcher

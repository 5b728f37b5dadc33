#include "launcher/hang/early_end.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/launcher/hang/worker_activities.h"

namespace ddprun::launcher {
namespace {

using State = CollectiveState;
using std::chrono::seconds;

WorkerFlight Flight(int rank, uint64_t number, State state) {
  return {rank, rank, *In(rank, number, state).flight};
}

TEST(EarlyEnd, IsOfTheRankThatHasNotComeToACollective) {
  const std::vector<WorkerFlight> living = {Flight(0, 418, State::kWaiting),
                                            Flight(2, 418, State::kWaiting)};
  const auto found = FindEarlyEnd(std::vector{Flight(1, 417, State::kCompleted)}, living);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->left, "ranks 0 and 2 waiting for it in all_reduce 418");
}

TEST(EarlyEnd, IsOfTheRankThatHasAttachedItselfAndBegunNothing) {
  const auto found =
      FindEarlyEnd(std::vector{WorkerFlight{1, 1, {}}}, std::vector{Flight(0, 1, State::kWaiting)});
  EXPECT_EQ(found->local_rank, 1);
}

TEST(EarlyEnd, IsOfTheRankThatEndedWithinACollective) {
  EXPECT_TRUE(FindEarlyEnd(std::vector{Flight(1, 418, State::kStarted)},
                           std::vector{Flight(0, 418, State::kWaiting)}));
}

TEST(EarlyEnd, IsNoneWhereTheRankHasCome) {
  const std::vector<WorkerFlight> living = {Flight(0, 418, State::kWaiting)};
  EXPECT_FALSE(FindEarlyEnd(std::vector{Flight(1, 418, State::kCompleted)}, living));
  EXPECT_FALSE(FindEarlyEnd(std::vector{Flight(1, 419, State::kWaiting)}, living));
}

TEST(EarlyEnd, IsNoneWhileNobodyWaits) {
  const std::vector<WorkerFlight> ended = {Flight(1, 417, State::kCompleted)};
  EXPECT_FALSE(FindEarlyEnd(ended, std::vector{Flight(0, 418, State::kStarted)}));
  EXPECT_FALSE(FindEarlyEnd(ended, std::vector{Flight(0, 418, State::kCompleted)}));
  EXPECT_FALSE(FindEarlyEnd(ended, {}));
}

// The members of a group of some ranks are unknown here.
TEST(EarlyEnd, IsNoneInAGroupOfSomeRanks) {
  WorkerFlight waits = Flight(0, 418, State::kWaiting);
  waits.flight.collectives.back().group = 1;
  EXPECT_FALSE(FindEarlyEnd(std::vector{Flight(1, 417, State::kCompleted)}, std::vector{waits}));
}

TEST(EarlyEnd, IsNoneOfARankThatWasInAnotherGroupOfAllRanks) {
  WorkerFlight waits = Flight(0, 418, State::kWaiting);
  waits.flight.collectives.back().group = 1 << kPartGroupBits;
  EXPECT_FALSE(FindEarlyEnd(std::vector{Flight(1, 417, State::kCompleted)}, std::vector{waits}));
}

// A receive's number is a rank.
TEST(EarlyEnd, IsNoneWhereAMessageIsWaitedFor) {
  WorkerFlight waits = Flight(0, 418, State::kWaiting);
  waits.flight.collectives.back().kind = CollectiveKind::kReceive;
  EXPECT_FALSE(FindEarlyEnd(std::vector{Flight(1, 417, State::kCompleted)}, std::vector{waits}));
  WorkerFlight received = Flight(1, 500, State::kCompleted);
  received.flight.collectives.back().kind = CollectiveKind::kReceive;
  EXPECT_TRUE(FindEarlyEnd(std::vector{received}, std::vector{Flight(0, 500, State::kWaiting)}));
}

TEST(DescribeEndWhileAllWait, IsSaidWhenEveryLivingRankHasWaitedInTheStore) {
  const std::vector<LiveWorker> ended = {{1, 1, 101, 0}};
  const std::vector<LiveWorker> living = {{0, 0, 100, 0}};
  std::vector<StoreWait> waits = {
      {.rank = 0,
       .pid = 100,
       .status = {.peer = "", .keys = {"/k"}, .num_keys = 1, .waited = seconds(12)}}};
  EXPECT_EQ(DescribeEndWhileAllWait(ended, living, waits),
            "rank 1 ended with code 0, and all others wait in the store: rank 0 (pid 100) has "
            "waited 12 s for /k, which nobody has set");
  EXPECT_EQ(DescribeEndWhileAllWait({}, living, waits), "");
  const std::vector<LiveWorker> one_works = {{0, 0, 100, 0}, {2, 2, 102, 0}};
  EXPECT_EQ(DescribeEndWhileAllWait(ended, one_works, waits), "");
  waits[0].status.waited = seconds(2);
  EXPECT_EQ(DescribeEndWhileAllWait(ended, living, waits), "");
}

// Rank 0 is this process and waits in a barrier; rank 1 was `writer_of_1` and is over.
class EarlyEndWatchTest : public testing::Test {
 protected:
  void Run(pid_t writer_of_1) {
    const Collective barrier{.kind = CollectiveKind::kBarrier, .number = 9};
    const uint64_t ticket = recorder_->Schedule(barrier);
    recorder_->Start(ticket, barrier);
    recorder_->SetWaiting(ticket, true);
    EarlyEndWatch watch(clock_,
                        {.living =
                             [&] {
                               return ++looks_ > 3 ? std::vector<LiveWorker>()
                                                   : std::vector<LiveWorker>{{0, 0, ::getpid(), 0}};
                             },
                         .ended =
                             [&] {
                               return std::vector<LiveWorker>{{1, 1, writer_of_1, 0}};
                             },
                         .flight = flight_.get()},
                        {.on_early_end = [&](const EarlyEnd& end) { found_ = end; }},
                        std::chrono::milliseconds(20));
    watch.Begin();
    io_.run();  // returns when the watch is over
  }

  const UniqueFd file_ = *CreateFlightRecorderFile(2);
  const std::unique_ptr<FlightRecorder> recorder_ = *FlightRecorder::Attach(file_, 0, 0);
  const std::unique_ptr<FlightReader> flight_ = *FlightReader::Open(file_, 2);
  asio::io_context io_;
  LoopClock clock_{io_};
  int looks_ = 0;
  std::optional<EarlyEnd> found_;
};

TEST_F(EarlyEndWatchTest, TellsOnceItHasSeenItTwice) {
  const pid_t worker = ::fork();
  if (worker == 0) ::_exit(FlightRecorder::Attach(file_, 1, 1) ? 0 : 1);
  ASSERT_EQ(::waitpid(worker, nullptr, 0), worker);
  Run(worker);
  ASSERT_TRUE(found_.has_value());
  EXPECT_EQ(found_->left, "rank 0 waiting for it in barrier 9");
  EXPECT_EQ(looks_, 2);
}

TEST_F(EarlyEndWatchTest, SaysNothingOfAWorkerWithoutAPage) {
  Run(1 << 22);
  EXPECT_FALSE(found_.has_value());
}

// A program that the worker has left behind may still come.
TEST_F(EarlyEndWatchTest, SaysNothingWhileTheProcessThatWritesThePageLives) {
  const auto page = FlightRecorder::Attach(file_, 1, 1);  // by this process
  Run(1 << 22);
  EXPECT_FALSE(found_.has_value());
}

}  // namespace
}  // namespace ddprun::launcher

#include <gtest/gtest.h>

#include "launcher/hang/worker_activity.h"
#include "tests/launcher/hang/worker_activities.h"

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = CollectiveState;

// The collectives of worker_activities.h begin at 100 s.
constexpr RecordedCollective::Time kThen(seconds(100) + milliseconds(12));

TEST(DescribePastFlight, SaysInWhatTheWorkerWaitedAndForHowLong) {
  WorkerActivity activity = In(0, 418, State::kWaiting);
  RecordedCollective& collective = activity.flight->collectives.back();
  collective.bucket = 3;
  collective.bytes = 25'000'000;
  collective.type = "float32";
  collective.step = 57;
  EXPECT_EQ(DescribePastFlight(*activity.flight, kThen),
            "waited in all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for 12 ms");
}

TEST(DescribePastFlight, SaysFromWhomAMessageWasAwaited) {
  WorkerActivity activity = In(0, 1, State::kWaiting);
  RecordedCollective& message = activity.flight->collectives.back();
  message.kind = CollectiveKind::kReceive;
  message.bytes = 12;
  EXPECT_EQ(DescribePastFlight(*activity.flight, kThen),
            "waited in receive from rank 1 (12 bytes) for 12 ms");
  message.kind = CollectiveKind::kReceiveFromAny;
  EXPECT_EQ(DescribePastFlight(*activity.flight, kThen),
            "waited in receive from any rank (12 bytes) for 12 ms");
}

TEST(DescribePastFlight, TellsWorkingFromWaiting) {
  EXPECT_EQ(DescribePastFlight(*In(0, 5, State::kStarted).flight, kThen + seconds(3)),
            "worked in all_reduce 5 for 3.0 s");
}

TEST(DescribePastFlight, NamesTheLastCollectiveOfAWorkerThatWasInNone) {
  EXPECT_EQ(DescribePastFlight(*In(0, 5, State::kCompleted).flight, kThen + seconds(1)),
            "was last seen in all_reduce 5, which had ended 12 ms before");
  EXPECT_EQ(DescribePastFlight(FlightSnapshot{}, kThen), "had begun no collective");
}

TEST(DescribePastFlight, ShowsNoTimeBelowZeroThoughTheRecordersClockIsCoarse) {
  EXPECT_EQ(
      DescribePastFlight(*In(0, 5, State::kWaiting).flight, RecordedCollective::Time(seconds(99))),
      "waited in all_reduce 5 for 0 ms");
}

}  // namespace
}  // namespace ddprun::launcher

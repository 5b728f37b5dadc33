#include <gtest/gtest.h>

#include <thread>

#include "base/flight_reader.h"
#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/mailbox.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {
namespace {

class RecordingTest : public testing::Test {
 protected:
  RecordingTest()
      : region_(*SharedRegion::Map(*SharedRegion::CreateFile(), 2)),
        file_(*CreateFlightRecorderFile(2)),
        reader_(*FlightReader::Open(file_, 2)) {
    for (int rank = 0; rank < 2; ++rank) {
      recorders_.push_back(*FlightRecorder::Attach(file_, rank, rank));
      groups_.push_back(std::make_unique<NodeGroup>(
          *region_, NodeGroup::Options{.rank = rank, .recorder = recorders_.back().get()}));
    }
  }

  Status AllReduce(int rank, size_t count, std::chrono::milliseconds timeout) {
    std::vector<float> data(count, 1.0F);
    return groups_[static_cast<size_t>(rank)]->AllReduce(data.data(), count, DataType::kFloat32,
                                                         Reduction::kSum, Clock::now() + timeout);
  }
  RecordedCollective Last(int rank) { return reader_->Read(rank)->collectives.back(); }

  std::unique_ptr<SharedRegion> region_;
  UniqueFd file_;
  std::unique_ptr<FlightReader> reader_;
  std::vector<std::unique_ptr<FlightRecorder>> recorders_;
  std::vector<std::unique_ptr<NodeGroup>> groups_;
};

constexpr std::chrono::seconds kLong{60};

TEST_F(RecordingTest, KnowsWhatEveryRankHasDone) {
  RunRanks(2, [&](int rank) {
    EXPECT_TRUE(AllReduce(rank, 10, kLong).ok());
    EXPECT_TRUE(AllReduce(rank, 100'000, kLong).ok());
    EXPECT_TRUE(groups_[static_cast<size_t>(rank)]->Barrier(Clock::now() + kLong).ok());
  });
  for (int rank = 0; rank < 2; ++rank) {
    const FlightSnapshot snapshot = *reader_->Read(rank);
    ASSERT_EQ(snapshot.collectives.size(), 3U);
    const RecordedCollective& large = snapshot.collectives[1];
    EXPECT_EQ(large.kind, CollectiveKind::kAllReduce);
    EXPECT_EQ(large.type, "float32");
    EXPECT_EQ(large.elements, 100'000U);
    EXPECT_EQ(large.bytes, 400'000U);
    EXPECT_EQ(large.number, 2U);
    EXPECT_EQ(large.state, CollectiveState::kCompleted);
    EXPECT_EQ(snapshot.collectives[2].kind, CollectiveKind::kBarrier);
    EXPECT_EQ(snapshot.collectives[2].type, "");
    EXPECT_EQ(snapshot.ended, 3U);
  }
}

TEST_F(RecordingTest, TellsWhoWaitsAndWhoHasNotCome) {
  std::jthread first([&] { EXPECT_TRUE(AllReduce(0, 10, kLong).ok()); });
  while (reader_->Read(0)->started == 0 || Last(0).state != CollectiveState::kWaiting) {
    std::this_thread::yield();
  }
  EXPECT_EQ(reader_->Read(1)->started, 0U);
  EXPECT_TRUE(AllReduce(1, 10, kLong).ok());
  first.join();
  EXPECT_EQ(Last(0).state, CollectiveState::kCompleted);
}

TEST_F(RecordingTest, PutsStepAndBucketIntoTheTimeoutsMessage) {
  recorders_[0]->SetStep(57);
  recorders_[0]->SetBucket(3);
  groups_[0]->UseTicket(recorders_[0]->Schedule({.kind = CollectiveKind::kAllReduce}));
  const Status status = AllReduce(0, 10, std::chrono::milliseconds(1));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(
      status.error().what.find("number 1 (sum of 10 float32) of step 57, bucket 3 in time: 1"),
      std::string::npos)
      << status.error().what;
  EXPECT_EQ(Last(0).state, CollectiveState::kFailed);
  EXPECT_EQ(Last(0).bucket, 3);
  EXPECT_TRUE(Last(0).scheduled.has_value());
}

TEST_F(RecordingTest, TellsWhoWaitsForAMessage) {
  const auto mailbox = [&](int rank) {
    return Mailbox(*region_, NodePlacement(rank, {0, 0}), GroupWire(),
                   {.recorder = recorders_[static_cast<size_t>(rank)].get(), .recorded_group = 7});
  };
  std::jthread receiver([&] {
    int value = 0;
    Mailbox own = mailbox(0);
    EXPECT_TRUE(own.Wait(*own.Receive(&value, sizeof value, 1, 0), Clock::now() + kLong).ok());
    EXPECT_EQ(value, 3);
  });
  while (reader_->Read(0)->started == 0 || Last(0).state != CollectiveState::kWaiting) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Last(0).kind, CollectiveKind::kReceive);
  EXPECT_EQ(Last(0).number, 1U);
  EXPECT_EQ(Last(0).group, 7);
  const int value = 3;
  Mailbox own = mailbox(1);
  EXPECT_TRUE(own.Send(&value, sizeof value, 0, 0)->status.ok());
  receiver.join();
  EXPECT_EQ(Last(0).state, CollectiveState::kCompleted);
}

TEST_F(RecordingTest, KnowsTheGroupsOfEveryRank) {
  recorders_[1]->NoteGroup(4);
  recorders_[1]->NoteGroup(0x2003);
  EXPECT_TRUE(reader_->Read(0)->groups.empty());
  EXPECT_EQ(reader_->Read(1)->groups, (std::vector<uint16_t>{4, 0x2003}));
}

// A ticket is for one operation.
TEST_F(RecordingTest, GivesTheNextOperationATicketOfItsOwn) {
  recorders_[0]->SetBucket(3);
  groups_[0]->UseTicket(recorders_[0]->Schedule({.kind = CollectiveKind::kAllReduce}));
  RunRanks(2, [&](int rank) {
    EXPECT_TRUE(AllReduce(rank, 10, kLong).ok());
    EXPECT_TRUE(AllReduce(rank, 10, kLong).ok());
  });
  const FlightSnapshot snapshot = *reader_->Read(0);
  ASSERT_EQ(snapshot.collectives.size(), 2U);
  EXPECT_EQ(snapshot.collectives[0].bucket, 3);
  EXPECT_EQ(snapshot.collectives[1].bucket, -1);
}

}  // namespace
}  // namespace ddprun::trainer

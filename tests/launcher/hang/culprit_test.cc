#include <gtest/gtest.h>

#include "launcher/hang/hang_report.h"
#include "tests/launcher/hang/worker_activities.h"

namespace ddprun::launcher {
namespace {

using State = CollectiveState;
using Ranks = std::vector<int>;

Culprit Find(const std::vector<WorkerActivity>& activities,
             const std::vector<StoreWait>& waits = {}) {
  return FindCulprit(activities, waits);
}

TEST(Culprit, IsTheRankThatHasNotComeToTheCollective) {
  const Culprit culprit = Find({In(0, 418, State::kWaiting), In(1, 418, State::kWaiting),
                                In(2, 417, State::kCompleted), In(3, 418, State::kWaiting)});
  EXPECT_EQ(culprit.ranks, Ranks{2});
  EXPECT_EQ(culprit.reason, "has not come to all_reduce 418");
}

TEST(Culprit, IsTheRankThatHasOnlyPutTheCollectiveInLine) {
  WorkerActivity busy = In(1, 417, State::kWaiting);
  RecordedCollective in_line = AllReduce(0, State::kScheduled);
  in_line.ticket = 418;
  busy.flight->collectives.back().state = State::kCompleted;
  busy.flight->collectives.push_back(in_line);
  EXPECT_EQ(Find({In(0, 418, State::kWaiting), busy}).ranks, Ranks{1});
}

TEST(Culprit, IsTheRankThatHasNoPageYetWhileOthersWait) {
  EXPECT_EQ(Find({At(0, 'R', 1), In(1, 1, State::kWaiting)}).ranks, Ranks{0});
}

TEST(Culprit, InAGroupOfSomeRanksIsOneOfThem) {
  std::vector<WorkerActivity> activities = {In(0, 2, State::kWaiting), In(1, 9, State::kCompleted),
                                            In(2, 9, State::kCompleted)};
  activities[0].flight->collectives.back().group = 5;
  activities[0].flight->groups = {5};
  activities[2].flight->groups = {3, 5};
  EXPECT_EQ(Find(activities).ranks, Ranks{2});
}

TEST(Culprit, InAGroupMadeAnewIsNotExcusedByTheOneBefore) {
  constexpr uint16_t kSecond = 1 << kPartGroupBits;
  std::vector<WorkerActivity> activities = {In(0, 2, State::kWaiting), In(1, 9, State::kCompleted)};
  activities[0].flight->collectives.back().group = kSecond;
  EXPECT_EQ(Find(activities).ranks, Ranks{1});
}

TEST(Culprit, IsNotFoundByTheNumbersOfMessages) {
  std::vector<WorkerActivity> activities = {In(0, 3, State::kWaiting), In(1, 2, State::kWaiting)};
  for (WorkerActivity& activity : activities) {
    activity.flight->collectives.back().kind = CollectiveKind::kReceive;
  }
  EXPECT_TRUE(Find(activities).ranks.empty());
}

// As in a pipeline: 2 waits for 1, which waits for 0.
TEST(Culprit, IsTheRankThatDoesNotSendWhatOthersWaitFor) {
  std::vector<WorkerActivity> activities = {In(0, 9, State::kCompleted), In(1, 0, State::kWaiting),
                                            In(2, 1, State::kWaiting)};
  for (size_t rank = 1; rank < 3; ++rank) {
    activities[rank].flight->collectives.back().kind = CollectiveKind::kReceive;
  }
  const Culprit culprit = Find(activities);
  EXPECT_EQ(culprit.ranks, Ranks{0});
  EXPECT_EQ(culprit.reason, "has not sent what rank 1 waits for");
}

TEST(Culprit, IsNobodyWhenAllWaitInTheSameCollective) {
  EXPECT_TRUE(Find({In(0, 7, State::kWaiting), In(1, 7, State::kWaiting)}).ranks.empty());
}

// Being stopped explains everything else.
TEST(Culprit, IsAStoppedProcessBeforeAnythingElse) {
  WorkerActivity stopped = In(1, 418, State::kStarted);
  stopped.place.state = 'T';
  const Culprit culprit =
      Find({In(0, 418, State::kWaiting), stopped, In(2, 417, State::kCompleted)});
  EXPECT_EQ(culprit.ranks, Ranks{1});
  EXPECT_NE(culprit.reason.find("SIGSTOP"), std::string::npos);
}

TEST(Culprit, IsEveryStoppedProcess) {
  EXPECT_EQ(Find({At(0, 'T', 1), At(1, 'T', 1)}).ranks, (Ranks{0, 1}));
}

TEST(Culprit, IsTheOneThatHangsInTheKernel) {
  EXPECT_EQ(Find({At(0, 'S', 1), At(1, 'D', 1)}).ranks, Ranks{1});
}

TEST(Culprit, IsWhoDoesNotWaitInTheStoreWhereOthersDo) {
  const std::vector<StoreWait> waits = {{.rank = 0}, {.rank = 2}};
  EXPECT_EQ(Find({At(0, 'S', 1), At(1, 'S', 1), At(2, 'S', 1)}, waits).ranks, Ranks{1});
  EXPECT_TRUE(Find({At(0, 'S', 1), At(2, 'S', 1)}, waits).ranks.empty());
}

TEST(Culprit, IsTheOneInAnotherSystemCall) {
  EXPECT_EQ(Find({At(0, 'S', 0), At(1, 'S', 0), At(2, 'S', 35), At(3, 'S', 0)}).ranks, Ranks{2});
  EXPECT_TRUE(Find({At(0, 'S', 0), At(1, 'S', 35)}).ranks.empty());
  EXPECT_TRUE(Find({At(0, 'S', 0), At(1, 'S', 35), At(2, 'S', 7)}).ranks.empty());
}

TEST(Culprit, IsTheOneThatStoppedLongBeforeTheOthers) {
  EXPECT_EQ(Find({At(0, 'S', 0, 60), At(1, 'S', 0, 200)}).ranks, Ranks{1});
  EXPECT_TRUE(Find({At(0, 'S', 0, 60), At(1, 'S', 0, 65)}).ranks.empty());
}

TEST(Culprit, IsNotLookedForInAWorkerAlone) {
  EXPECT_TRUE(Find({At(0, 'S', 0)}).ranks.empty());
}

}  // namespace
}  // namespace ddprun::launcher

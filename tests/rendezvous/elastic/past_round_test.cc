// A coordinator that takes the place of one that is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/elastic/round_state_nodes.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class PastRoundTest : public RoundStateTest {
 protected:
  PastRoundTest() {
    Make(2, 3, 3);
    state_.emplace(state_->rules(), now_ + seconds(30));
  }

  // `past` is {rounds, restarts, nodes}.
  void Join(NodeId id, std::optional<Past> past = {}) {
    Take(state_->OnJoin(id, {.host = "h", .pid = static_cast<int>(id), .past = past}, now_));
  }
  // How many nodes were told to start, over all rounds.
  size_t starts() const { return Told<StartRound>().size(); }
  const Membership& membership() const { return memberships_.begin()->second; }
};

TEST_F(PastRoundTest, StartsWhenAllItsNodesHaveComeAndCountsOn) {
  for (const NodeId id : {1, 2}) Join(id, Past{.rounds = 7, .restarts = 2, .nodes = 3});
  EXPECT_EQ(starts(), 0U) << "the third node may still run its workers";
  EXPECT_THAT(Last<ReportProgress>().line, HasSubstr("workers of an earlier round"));
  Join(3, Past{.rounds = 7, .restarts = 2, .nodes = 3});
  EXPECT_EQ(starts(), 3U);
  EXPECT_EQ(membership().round, 7);
  EXPECT_EQ(membership().restart_count, 2);
}

TEST_F(PastRoundTest, StartsWithoutTheOthersWhenTheirWorkersHaveEnded) {
  for (const NodeId id : {1, 2}) Join(id, Past{.rounds = 1, .restarts = 0, .nodes = 3});
  Pass(seconds(29));
  EXPECT_LE(state_->NextDeadline(), now_ + seconds(1));
  EXPECT_EQ(starts(), 0U);
  Pass(seconds(1));
  EXPECT_EQ(starts(), 2U);
}

TEST_F(PastRoundTest, KeepsNewNodesWaitingToo) {
  for (const NodeId id : {1, 2, 3}) Join(id);
  EXPECT_EQ(starts(), 0U);
  Pass(seconds(30));
  EXPECT_EQ(starts(), 3U);
}

TEST_F(PastRoundTest, OneNodeThatComesTwiceIsOneNode) {
  for (const NodeId id : {1, 2}) Join(id, Past{.rounds = 1, .restarts = 0, .nodes = 3});
  Take(state_->OnGone(2, "closed", now_));
  Take(state_->OnJoin(
      9, {.host = "h", .pid = 2, .past = Past{.rounds = 1, .restarts = 0, .nodes = 3}}, now_));
  EXPECT_EQ(starts(), 0U);
}

TEST_F(PastRoundTest, WaitsUntilTheWorkersOfASilentNodeHaveEnded) {
  Pass(seconds(30));
  for (const NodeId id : {1, 2, 3}) Join(id);
  ASSERT_EQ(starts(), 3U);
  Take(state_->OnGone(3, "silent", now_, now_ + seconds(10)));
  for (const NodeId id : {1, 2}) Join(id);
  Pass(seconds(9));
  EXPECT_LE(state_->NextDeadline(), now_ + seconds(1));
  EXPECT_EQ(starts(), 3U);
  Pass(seconds(1));
  EXPECT_EQ(starts(), 5U);
}

TEST_F(PastRoundTest, DoesNotWaitForASilentNodeThatComesBackOrHadNoWorkers) {
  Pass(seconds(30));
  for (const NodeId id : {1, 2, 3}) Join(id);
  Join(4);  // waits as a spare
  Take(state_->OnGone(4, "silent", now_, now_ + seconds(10)));
  Take(state_->OnGone(3, "silent", now_, now_ + seconds(10)));
  for (const NodeId id : {1, 2}) Join(id);
  EXPECT_EQ(starts(), 3U);
  Take(state_->OnJoin(9, {.host = "h", .pid = 3}, now_));
  EXPECT_EQ(starts(), 6U);
}

TEST_F(PastRoundTest, WaitsUntilANodeThatLeavesIsGone) {
  Pass(seconds(30));
  for (const NodeId id : {1, 2, 3}) Join(id);
  Take(state_->OnWithdraw(3, {.message = "stopped"}, false, now_, true));
  for (const NodeId id : {1, 2}) Join(id);
  Pass(seconds(300));
  EXPECT_EQ(starts(), 3U) << "its workers may save for a long time";
  Take(state_->OnGone(3, "closed", now_, now_));
  EXPECT_EQ(starts(), 5U);
}

TEST_F(PastRoundTest, TheLatestRoundCounts) {
  Join(1, Past{.rounds = 4, .restarts = 1, .nodes = 1});
  Join(2, Past{.rounds = 5, .restarts = 0, .nodes = 2});
  EXPECT_EQ(starts(), 0U) << "the other node of round 5 has not come";
  Join(3, Past{.rounds = 5, .restarts = 1, .nodes = 2});
  EXPECT_EQ(starts(), 3U);
  EXPECT_EQ(membership().round, 5);
  EXPECT_EQ(membership().restart_count, 1);
}

TEST_F(PastRoundTest, ANodeThatWasCutOffIsNewInARunningJob) {
  Pass(seconds(30));
  for (const NodeId id : {1, 2, 3}) Join(id);
  ASSERT_EQ(starts(), 3U);
  Take(state_->OnGone(3, "closed", now_));
  Join(4, Past{.rounds = 9, .restarts = 9, .nodes = 9});
  memberships_.clear();
  for (const NodeId id : {1, 2}) Join(id);
  EXPECT_EQ(starts(), 6U);
  EXPECT_EQ(membership().round, 1);
  EXPECT_EQ(membership().restart_count, 0);
}

}  // namespace
}  // namespace ddprun::rendezvous

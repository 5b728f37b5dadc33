#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/report/noted_lines.h"
#include "trainer/report/rank_times_report.h"
#include "trainer/report/slow_ranks.h"

namespace ddprun::trainer {
namespace {

// Seconds of waiting for data and of forward.
RankTimesRow Row(double data, double forward, double node = 0, double steps = 10) {
  RankTimesRow row{.steps = steps, .node = node};
  row.seconds[0] = data;
  row.seconds[1] = forward;
  return row;
}

TEST(CompareRankTimes, HasTheExtremesOfEachPhase) {
  const std::vector<RankTimesRow> rows = {Row(1, 4), Row(2, 2), Row(8, 3, 1), Row(3, 9, 1)};
  const RankTimesReport report = CompareRankTimes(rows);
  EXPECT_EQ(report.steps, 10);
  EXPECT_TRUE(report.several_nodes);
  ASSERT_EQ(report.phases.size(), 3U);  // the other phases took no time
  const RankTimesReport::Phase& data = report.phases[0];
  EXPECT_EQ(data.name, "data");
  EXPECT_EQ(data.least, 1);
  EXPECT_EQ(data.median, 2.5);
  EXPECT_EQ(data.most, 8);
  EXPECT_EQ(data.slowest, 2);
  EXPECT_EQ(report.phases[1].slowest, 3);
  EXPECT_EQ(report.phases[2].name, "all");
  EXPECT_EQ(report.phases[2].most, 12);
  EXPECT_EQ(report.slowest.rank, 3);
  EXPECT_EQ(report.slowest.node, 1);
  EXPECT_EQ(report.slowest.seconds, 12);
  EXPECT_EQ(report.slowest.others, 5);  // of 5, 4 and 11
  EXPECT_EQ(report.slowest.phase, "forward");
  EXPECT_EQ(report.slowest.phase_seconds, 9);
  EXPECT_EQ(report.slowest.phase_others, 3);
}

TEST(CompareRankTimes, LeavesOutRanksThatHaveMeasuredNothing) {
  const std::vector<RankTimesRow> one = {Row(1, 1), Row(0, 0, 0, /*steps=*/0)};
  EXPECT_TRUE(CompareRankTimes(one).phases.empty());
  const std::vector<RankTimesRow> two = {Row(0, 0, 0, /*steps=*/0), Row(1, 1), Row(1, 2)};
  const RankTimesReport report = CompareRankTimes(two);
  EXPECT_EQ(report.phases[0].least, 1);
  EXPECT_EQ(report.slowest.rank, 2);
}

class SlowRanksTest : public ::testing::Test {
 protected:
  void Report(double seconds, const std::vector<RankTimesRow>& rows, bool alike = true) {
    RankTimesReport report = CompareRankTimes(rows);
    report.alike = alike;
    slow_ranks_.OnRankTimes(report, {.unix_seconds = 0, .steady_seconds = seconds});
  }

  NotedLines notes_;
  SlowRanks slow_ranks_{notes_};
};

TEST_F(SlowRanksTest, NamesARankThatIsSlowForLong) {
  const std::vector<RankTimesRow> slow = {Row(0.001, 0.020), Row(0.001, 0.021),
                                          Row(0.002, 0.0405, 1)};
  for (const double seconds : {0, 5, 9}) Report(seconds, slow);
  EXPECT_TRUE(notes_.lines.empty());
  Report(10, slow);
  ASSERT_EQ(notes_.lines.size(), 1U);
  EXPECT_EQ(notes_.lines[0],
            "rank 2 on node 1 is slow, and the others wait for it: 42.5 ms of its own in a step, "
            "the others 21.5 ms (median). Most of it: forward, 40.5 ms and 20.5 ms");
  for (const double seconds : {20, 300, 609}) Report(seconds, slow);
  EXPECT_EQ(notes_.lines.size(), 1U);
  Report(610, slow);
  EXPECT_EQ(notes_.lines.size(), 2U);
}

TEST_F(SlowRanksTest, ABreakOrAnotherRankBeginsAnew) {
  const std::vector<RankTimesRow> first = {Row(0.05, 0.02), Row(0.001, 0.02)};
  const std::vector<RankTimesRow> second = {Row(0.001, 0.02), Row(0.05, 0.02)};
  const std::vector<RankTimesRow> alike = {Row(0.001, 0.02), Row(0.001, 0.024)};
  for (const double seconds : {0, 9}) Report(seconds, first);
  Report(11, alike);
  for (const double seconds : {12, 20}) Report(seconds, first);
  for (const double seconds : {23, 32}) Report(seconds, second);
  EXPECT_TRUE(notes_.lines.empty());
  Report(33, second);
  ASSERT_EQ(notes_.lines.size(), 1U);
  EXPECT_TRUE(notes_.lines[0].starts_with("rank 1 is slow")) << notes_.lines[0];
  EXPECT_TRUE(notes_.lines[0].ends_with("waiting for data, 50.0 ms and 1.00 ms"))
      << notes_.lines[0];
}

TEST_F(SlowRanksTest, StagesOfAPipelineDiffer) {
  const std::vector<RankTimesRow> rows = {Row(0.05, 0.02), Row(0.001, 0.02)};
  for (int second = 0; second < 100; ++second) Report(second, rows, /*alike=*/false);
  EXPECT_TRUE(notes_.lines.empty());
}

}  // namespace
}  // namespace ddprun::trainer

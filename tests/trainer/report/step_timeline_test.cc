// loop.trace reads the traces of whole runs.
#include "trainer/report/step_timeline.h"

#include <gmock/gmock.h>

#include "trainer/report/timeline_picture.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Phase(int rank, const char* name, int begin, int end) {
  return R"({"ph":"X","cat":"step","name":")" + std::string(name) + R"(","pid":)" +
         std::to_string(rank) + R"(,"tid":1,"ts":)" + std::to_string(begin) + R"(,"dur":)" +
         std::to_string(end - begin) + "},\n";
}

// Two ranks, of which the second is late; rank 0's updates end at 3, 7 and 11 ms.
std::string Trace() {
  std::string events;
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 0; step < 3; ++step) {
      const int begin = 4000 * step + 100 * rank;
      events += Phase(rank, "forward", begin, begin + 1000);
      events += Phase(rank, "backward", begin + 1000, begin + 2500);
      events += Phase(rank, "update", begin + 2500, begin + 3000);
    }
    events += R"({"ph":"M","name":"thread_name","pid":)" + std::to_string(rank) +
              R"(,"tid":3,"args":{"name":"collectives of all ranks"}},)";
  }
  return R"({"traceEvents":[)" + events +
         R"({"ph":"X","cat":"communication","name":"all_reduce","pid":0,"tid":3,"ts":5500,"dur":900,
             "args":{"waited_us":300,"of":"step 41, bucket 2"}},
            {"ph":"b","cat":"communication","name":"receive","pid":1,"tid":2,"ts":5000,"id":"1.0"},
            {"ph":"e","cat":"communication","name":"receive","pid":1,"tid":2,"ts":6000,"id":"1.0"}
         ]})";
}

TEST(ReadTimeline, HasTheStepInTheMiddle) {
  const auto timeline = ReadTimeline(Trace(), 16);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->step, 41);
  EXPECT_DOUBLE_EQ(timeline->milliseconds, 4);  // from 3 ms to 7 ms
  std::vector<std::string> rows;
  for (const auto& row : timeline->rows) rows.push_back(std::to_string(row.rank) + row.name);
  EXPECT_THAT(rows, ElementsAre("0", "0collectives of all ranks", "1", "1"));
  const auto& sum = *std::ranges::find(timeline->spans, "all_reduce", &StepTimeline::Span::name);
  EXPECT_EQ(sum.row, 1U);
  EXPECT_DOUBLE_EQ(sum.begin, 2.5);
  EXPECT_DOUBLE_EQ(sum.end, 3.4);
  EXPECT_NEAR(sum.waited, 0.3, 1e-9);
  const auto& message = *std::ranges::find(timeline->spans, "receive", &StepTimeline::Span::name);
  EXPECT_DOUBLE_EQ(message.end - message.begin, 1);
  // The end of rank 1's step before is cut at the beginning of rank 0's step.
  const auto& before = *std::ranges::find_if(
      timeline->spans, [](const auto& span) { return span.row == 2 && span.name == "update"; });
  EXPECT_DOUBLE_EQ(before.begin, 0);
  EXPECT_NEAR(before.end, 0.1, 1e-9);
}

TEST(ReadTimeline, KeepsTheFirstRanks) {
  const auto timeline = ReadTimeline(Trace(), 1);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->rows.size(), 2U);
  EXPECT_EQ(timeline->ranks_left_out, 1);
  EXPECT_THAT(TimelinePicture(*timeline), HasSubstr("1 further rank not shown"));
}

TEST(ReadTimeline, TakesNoOtherText) {
  for (const char* text :
       {"", "[]", "{}", R"({"traceEvents":3})", R"({"traceEvents":[3,{"ph":[]},{"ph":"X"}]})",
        R"({"traceEvents":[{"ph":"X","cat":"step","name":"update","pid":0,"ts":5,"args":7}]})"}) {
    EXPECT_FALSE(ReadTimeline(text, 16)) << text;
  }
}

TEST(TimelinePicture, ShowsEachSpanAndItsTimes) {
  const std::string picture = TimelinePicture(*ReadTimeline(Trace(), 16));
  EXPECT_THAT(picture, HasSubstr("<h3>step 41</h3>"));
  EXPECT_THAT(picture, HasSubstr("collectives of all ranks: all_reduce, step 41, bucket 2, 0.9 ms "
                                 "from 2.5 ms, of them 0.3 ms waiting for ranks"));
  EXPECT_THAT(picture, HasSubstr("rank 1</text>"));
  EXPECT_THAT(picture, Not(HasSubstr("wait for data")));
  EXPECT_EQ(TimelinePicture({}), "");
}

TEST(TimelinePicture, TakesAnyTextAsText) {
  StepTimeline timeline{.milliseconds = 1, .rows = {{0, "<b>"}}};
  timeline.spans.push_back({.name = "<script>", .end = 1, .of = "\"><i>"});
  EXPECT_THAT(TimelinePicture(timeline), Not(HasSubstr("<script>")));
  EXPECT_THAT(TimelinePicture(timeline), Not(HasSubstr("<b>")));
}

}  // namespace
}  // namespace ddprun::trainer

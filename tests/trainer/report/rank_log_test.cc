#include <gtest/gtest.h>

#include <cmath>

#include "trainer/report/terminal.h"

namespace ddprun::trainer {
namespace {

constexpr ProgressState kState = {.per_second = 10240, .rate_is_tokens = true, .seconds_left = 92};

StepReport Report(int64_t step, double loss) {
  return {.step = step,
          .max_steps = 500,
          .mean_loss = loss,
          .learning_rate = 3e-4,
          .grad_norm = 0.812,
          .samples = 16,
          .tokens = 2048,
          .step_seconds = 0.2,
          .exposed_comm_seconds = 0.006};
}

TEST(RankLog, ALineShowsTheStep) {
  EXPECT_EQ(
      FormatLogLine(Report(40, 2.45131), kState),
      "step  40/500  loss  2.4513  lr 3.00e-04  grad norm  0.81  10.2k tokens/s  exposed comm  "
      "3%  left 1:32");
  StepReport report = Report(40, 2.45131);
  report.max_memory_allocated = int64_t{12} << 30;
  EXPECT_TRUE(
      FormatLogLine(report, kState).ends_with("exposed comm  3%  memory 12 GiB  left 1:32"));
}

TEST(RankLog, SaysNothingOfCommunicationThatNobodyMeasured) {
  StepReport report = Report(40, 2.5);
  report.exposed_comm_seconds = -1;
  EXPECT_EQ(FormatLogLine(report, kState).find("exposed"), std::string::npos);
}

TEST(RankLog, ColumnsStayInPlace) {
  const std::string one = FormatLogLine(Report(1, 10.1), kState);
  const std::string other = FormatLogLine(Report(500, 0.9), kState);
  for (const char* column : {"loss", "lr", "grad norm", "tokens/s", "exposed", "left"}) {
    EXPECT_EQ(one.find(column), other.find(column)) << column;
  }
}

TEST(RankLog, FitsIntoANarrowTerminal) {
  const StepReport report = Report(40, 2.45131);
  EXPECT_EQ(FormatLogLine(report, kState, 84),
            "step  40/500  loss  2.4513  lr 3.00e-04  grad norm  0.81  10.2k tokens/s  left 1:32");
  EXPECT_EQ(FormatLogLine(report, kState, 80),
            "step  40/500  loss  2.4513  lr 3.00e-04  10.2k tokens/s  left 1:32");
  EXPECT_EQ(FormatLogLine(report, kState, 50), "step  40/500  loss  2.4513  10.2k tokens/s");
  EXPECT_EQ(FormatLogLine(report, kState, 10), "step  40/500  loss  2.4513");
}

TEST(RankLog, ADivergedLossIsShown) {
  EXPECT_NE(FormatLogLine(Report(2, std::nan("")), kState).find("loss     nan"), std::string::npos);
}

TEST(RankLog, UnknownPartsAreLeftOut) {
  ProgressState state = kState;
  state.rate_is_tokens = false;
  state.seconds_left = -1;
  StepReport report = Report(1, 1);
  report.step_seconds = 0;
  EXPECT_EQ(FormatLogLine(report, state),
            "step   1/500  loss  1.0000  lr 3.00e-04  grad norm  0.81  10.2k samples/s");
}

TEST(RankLog, AnEvaluationHasItsOwnLine) {
  const EvalReport report = {
      .step = 100, .epoch = 0.5, .loss = 2.312, .samples = 512, .seconds = 3.2};
  EXPECT_EQ(FormatEvalLine(report, 500, "test"),
            "step 100/500  test loss 2.3120  (512 samples in 0:03)");
}

}  // namespace
}  // namespace ddprun::trainer

#include "trainer/report/terminal.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddprun::trainer {
namespace {

LogLine Line(int64_t step, double loss) {
  return {.step = {.step = step,
                   .max_steps = 500,
                   .mean_loss = loss,
                   .learning_rate = 3e-4,
                   .grad_norm = 0.812,
                   .samples = 16,
                   .tokens = 2048,
                   .step_seconds = 0.2,
                   .exposed_comm_seconds = 0.006},
          .per_second = 10240,
          .rate_is_tokens = true,
          .seconds_left = 92};
}

TEST(RankLog, ALineShowsTheStep) {
  EXPECT_EQ(
      FormatLogLine(Line(40, 2.45131)),
      "step  40/500  loss  2.4513  lr 3.00e-04  grad norm  0.81  10.2k tokens/s  exposed comm  "
      "3%  left 1:32");
  LogLine line = Line(40, 2.45131);
  line.step.max_memory_allocated = int64_t{12} << 30;
  EXPECT_TRUE(FormatLogLine(line).ends_with("exposed comm  3%  memory 12 GiB  left 1:32"));
}

TEST(RankLog, ColumnsStayInPlace) {
  const std::string one = FormatLogLine(Line(1, 10.1));
  const std::string other = FormatLogLine(Line(500, 0.9));
  for (const char* column : {"loss", "lr", "grad norm", "tokens/s", "exposed", "left"}) {
    EXPECT_EQ(one.find(column), other.find(column)) << column;
  }
}

TEST(RankLog, ADivergedLossIsShown) {
  EXPECT_NE(FormatLogLine(Line(2, std::nan(""))).find("loss     nan"), std::string::npos);
}

TEST(RankLog, UnknownPartsAreLeftOut) {
  LogLine line = Line(1, 1);
  line.rate_is_tokens = false;
  line.seconds_left = -1;
  line.step.step_seconds = 0;
  EXPECT_EQ(FormatLogLine(line),
            "step   1/500  loss  1.0000  lr 3.00e-04  grad norm  0.81  10.2k samples/s");
}

TEST(RankLog, AnEvaluationHasItsOwnLine) {
  EXPECT_EQ(FormatEvalLine(
                {.step = 100, .epoch = 0.5, .loss = 2.312, .samples = 512, .seconds = 3.2}, 500),
            "step 100/500  validation loss 2.3120  (512 samples in 0:03)");
}

}  // namespace
}  // namespace ddprun::trainer

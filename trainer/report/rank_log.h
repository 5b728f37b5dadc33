// The lines of rank 0 on a terminal or in a log file. Pure functions.
#pragma once

#include <string>

#include "trainer/report/step_report.h"

namespace ddprun::trainer {

struct LogLine {
  StepReport step;        // the latest
  double mean_loss = 0;   // over the steps since the line before
  double per_second = 0;  // tokens, or samples where there are no tokens
  bool rate_is_tokens = true;
  double seconds_left = 0;  // of the run; negative: unknown
};

// Columns keep their places from line to line, without newline:
// step   40/500  loss 2.4513  lr 3.00e-04  grad norm 0.81  12.3k tokens/s  exposed comm 3%  left
// 0:42
std::string FormatLogLine(const LogLine& line);

// step  100/500  validation loss 2.3120  accuracy 0.8125  (512 samples in 0:03)
std::string FormatEvalLine(const EvalReport& report, int64_t max_steps);

// bucket sizes: the fastest of 5 is bucket_cap_mb 5, first_bucket_mb 1: 4.10 ms against 5.00 ms
// with the default; keep it: --set strategy.bucket_cap_mb=5 --set strategy.first_bucket_mb=1
std::string FormatBucketSizesLine(const BucketSizesReport& report);

}  // namespace ddprun::trainer

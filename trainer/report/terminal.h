// Prints rank 0's lines on a terminal or into a log file, and the progress bar below them.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>

#include "base/env.h"
#include "trainer/config/config.h"
#include "trainer/report/meter.h"
#include "trainer/report/observer.h"
#include "trainer/report/progress_bar.h"

namespace ddprun::trainer {

// Columns keep their places from line to line, without newline:
// step   40/500  loss 2.4513  lr 3.00e-04  grad norm 0.81  12.3k tokens/s  left 0:42
// If `width` is less than the line needs, parts are left out, those that matter least first.
std::string FormatLogLine(const StepReport& step,
                          const ProgressState& state,
                          size_t width = std::numeric_limits<size_t>::max());

// step  100/500  validation loss 2.3120  accuracy 0.8125  (512 samples in 0:03)
std::string FormatEvalLine(const EvalReport& report, int64_t max_steps, const char* split);

// bucket sizes: the fastest of 5 is bucket_cap_mb 5, first_bucket_mb 1: 4.10 ms against 5.00 ms
// with the default; keep it: --set strategy.bucket_cap_mb=5 --set strategy.first_bucket_mb=1
std::string FormatBucketSizesLine(const BucketSizesReport& report);

// device 0 (cpu): 15 samples, 1.20 MiB: model 400 KiB, gradients 400 KiB, optimizer 0 bytes, batch
// 300 KiB, outputs 100 KiB, gathered [30, 2]
std::string FormatDeviceMemoryLine(const DeviceMemoryReport::Device& device, size_t index);

struct TerminalOptions {
  int line_fd = 1;              // where lines go
  int bar_fd = -1;              // where the progress bar goes, below the lines; -1: none
  std::string numbers_in = {};  // the file that also has the numbers, for a message
};

// Returns the descriptor for the progress bar: stdout or stderr if one is a terminal that knows
// escape sequences. If none is, returns stderr for kOn, else -1. Returns -1 for kOff.
int ProgressBarFd(ProgressBarMode mode, const Environment& environment);

class Terminal final : public Observer {
 public:
  explicit Terminal(const TerminalOptions& options);

  void OnNote(std::string_view line) override;
  void OnStep(const StepReport& report, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;
  void OnTest(const EvalReport& report, ReportTime now) override;
  void OnCheckpoint(const CheckpointReport& report, ReportTime now) override;
  void OnDeviceMemory(const DeviceMemoryReport& report, ReportTime now) override;
  void OnBucketSizes(const BucketSizesReport& report, ReportTime now) override;
  // Leaves the bar on the terminal.
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  ProgressState State() const;

  const TerminalOptions options_;
  std::unique_ptr<ProgressBar> bar_;
  bool output_lost_ = false;
  StepReport last_;
  RateMeter rate_;
};

}  // namespace ddprun::trainer

// All reports of a run behind one object: the training loop on rank 0 makes one and calls it.
// One thread; nothing here waits for anything but a write.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trainer/config/config.h"
#include "trainer/report/meter.h"
#include "trainer/report/metrics_file.h"
#include "trainer/report/progress_bar.h"
#include "trainer/report/rank_log.h"
#include "trainer/report/step_report.h"

namespace ddprun::trainer {

struct ReportTime {
  double unix_seconds = 0;    // wall clock, for files
  double steady_seconds = 0;  // for intervals

  static ReportTime Now();
};

struct ReporterOptions {
  std::string metrics_path;  // empty: no metrics.jsonl
  int64_t logging_steps = 10;
  int line_fd = 1;  // where lines go
  int bar_fd = -1;  // where the progress bar goes, below the lines; -1: none
};

// The descriptor for the progress bar: stdout or stderr, whichever is a terminal, or -1.
int ProgressBarFd(ProgressBarMode mode);

// Whether a step gets a line: the first, the last and every logging_steps-th do.
bool IsReported(int64_t step, int64_t max_steps, int64_t logging_steps);

class RunReporter {
 public:
  // Writes the first line of metrics.jsonl.
  static Result<std::unique_ptr<RunReporter>> Create(const ReporterOptions& options,
                                                     const RunHeader& header,
                                                     ReportTime now);

  // Call it for every step, in their order.
  void OnStep(const StepReport& report, ReportTime now);
  void OnEval(const EvalReport& report, ReportTime now);
  void OnBucketSizes(const BucketSizesReport& report, ReportTime now);
  // Any other line, without newline; the progress bar makes room.
  void PrintLine(std::string_view line);
  // Last call: the bar stays as it is, the file gets its last line.
  void OnEnd(const RunEnd& end, ReportTime now);

 private:
  RunReporter(const ReporterOptions& options, std::optional<MetricsFile> metrics);
  void Append(const std::string& line);
  ProgressState State() const;
  double SecondsLeft() const;

  ReporterOptions options_;
  std::optional<MetricsFile> metrics_;
  std::unique_ptr<ProgressBar> bar_;
  bool warned_ = false;
  bool output_lost_ = false;
  StepReport last_;
  MeanMeter loss_;
  RateMeter rate_;
};

}  // namespace ddprun::trainer

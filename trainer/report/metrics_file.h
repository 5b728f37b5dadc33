// metrics.jsonl: one JSON object per line, for scripts. The first line says what run it is, the
// last why it ended. Every line is handed to the system at once, so that a crash loses none.
// Non-finite numbers are the strings "nan", "inf" and "-inf": bare ones are no JSON, and a null
// would hide a diverged run.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Where a run goes on after `step`: leaves out what the file at `path` says of later steps, of an
// end that was none, and a line that a crash cut off; rewritten aside and renamed. No file, no
// change. `evaluation_due`: the run evaluates `step` again, so that an evaluation of it goes, too.
Status CutMetrics(const std::string& path, int64_t step, bool evaluation_due = false);

// The last steps of which the file at `path` tells.
struct ToldSteps {
  int64_t train = 0;
  int64_t validation = 0;
};
// The same where the process that wrote it was killed and the run goes on: only a line that it did
// not finish is left out. Looks at the end of the file alone.
Result<ToldSteps> CutLastLine(const std::string& path);

// When the last line was written that the file at `path` has (Unix time); 0: there is none.
double LastToldAt(const std::string& path);

class MetricsFile final : public Observer {
 public:
  // `warned` is told, once, that lines are being lost (a full disk); later ones may succeed.
  // `goes_on`: in the file of a process whose place this one has taken, without a line of its own.
  MetricsFile(std::string path, Observer& warned, bool goes_on = false)
      : path_(std::move(path)), warned_(warned), goes_on_(goes_on) {}

  // Appends to the file, or makes it.
  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStep(const StepReport& report, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;
  void OnCheckpoint(const CheckpointReport& report, ReportTime now) override;
  void OnDeviceMemory(const DeviceMemoryReport& report, ReportTime now) override;
  void OnBucketSizes(const BucketSizesReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  void Append(const std::string& line);

  const std::string path_;
  Observer& warned_;
  const bool goes_on_;
  UniqueFd fd_;
  int64_t step_ = 0;
  bool losing_ = false;
};

}  // namespace ddprun::trainer

// metrics.jsonl: one JSON object per line, for scripts. The first line describes the run, the last
// says why it ended. Every line is written at once, so that a crash loses none. Non-finite numbers
// are the strings "nan", "inf" and "-inf", because bare ones are not JSON, and null would hide
// them.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/report/observer.h"
#include "trainer/report/rank_times_report.h"

namespace ddprun::trainer {

// Prepares the file at `path` for a run that resumes after `step`: removes lines about later steps,
// the line of an earlier end, and a line that a crash cut off. Writes a new file and renames it.
// Without a file, does nothing. `evaluation_due`: the run evaluates `step` again, so that its
// evaluation is removed, too. Error: the file cannot be read or written.
Status CutMetrics(const std::string& path, int64_t step, bool evaluation_due = false);

// The last steps in the file.
struct WrittenSteps {
  int64_t train = 0;
  int64_t validation = 0;
  int64_t test = 0;  // after the last step; 0: the steps since then are not tested
};
// Prepares the file after its process was killed and another process replaces it: removes only an
// unfinished last line. Reads only the end of the file.
Result<WrittenSteps> CutLastLine(const std::string& path);

// Returns the Unix time of the last line of the file at `path`; 0 means that there is none.
double LastWriteTime(const std::string& path);

class MetricsFile final : public Observer {
 public:
  // `warned` gets a note, once, if lines are lost (a full disk); later lines may succeed.
  // `continues_file`: this process replaces another one and continues its file.
  MetricsFile(std::string path, Observer& warned, bool continues_file = false)
      : path_(std::move(path)), warned_(warned), continues_file_(continues_file) {}

  // Opens the file to append to it, or creates it.
  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStep(const StepReport& report, ReportTime now) override;
  void OnRankTimes(const RankTimesReport& report, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;
  void OnTest(const EvalReport& report, ReportTime now) override;
  void OnCheckpoint(const CheckpointReport& report, ReportTime now) override;
  void OnDeviceMemory(const DeviceMemoryReport& report, ReportTime now) override;
  void OnBucketSizes(const BucketSizesReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  void AppendEvaluation(const char* split, const EvalReport& report, ReportTime now);
  void Append(const std::string& line);
  Status OpenIfRemoved();

  const std::string path_;
  Observer& warned_;
  const bool continues_file_;
  UniqueFd fd_;
  int64_t step_ = 0;
  bool has_warned_ = false;
  RankTimesReport rank_times_;  // for the next line of a step
};

}  // namespace ddprun::trainer

// metrics.jsonl: one JSON object per line, for scripts. The first line says what run it is, the
// last why it ended. Every line is handed to the system at once, so that a crash loses none.
// One thread.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/report/step_report.h"

namespace ddprun::trainer {

// Lines without newline. `unix_seconds` is the wall clock. Non-finite numbers become the strings
// "nan", "inf" and "-inf": bare ones are no JSON, and a null would hide a diverged run.
std::string HeaderJson(const RunHeader& header, double unix_seconds);
std::string StepJson(const StepReport& report, double mean_loss, double unix_seconds);
std::string EvalJson(const EvalReport& report, double unix_seconds);
std::string BucketSizesJson(const BucketSizesReport& report, double unix_seconds);
std::string EndJson(const RunEnd& end, double unix_seconds);

class MetricsFile {
 public:
  // Appends to the file, or makes it.
  static Result<MetricsFile> Open(const std::string& path);

  // One line. An error (a full disk) leaves the file usable: later lines may succeed.
  Status Append(const std::string& line);

 private:
  MetricsFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace ddprun::trainer

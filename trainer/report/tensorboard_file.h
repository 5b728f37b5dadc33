// The numbers of metrics.jsonl as event files of TensorBoard: TFRecord frames around protobuf
// messages (tensorflow/core/util/event.proto).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Returns a frame: length, its checksum, `data`, its checksum.
std::string TensorboardRecord(std::string_view data);

class TensorboardFile final : public Observer {
 public:
  // Each start writes a file of its own in RUN/tensorboard. `warned` gets a note, once, if numbers
  // are lost; later ones may succeed. `continues_file`: this process replaces another one.
  TensorboardFile(std::string run, Observer& warned, bool continues_file = false)
      : run_(std::move(run)), warned_(warned), continues_file_(continues_file) {}

  // Also writes the run's config as a text, and hides steps after the one from which it resumes.
  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStep(const StepReport& report, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;

 private:
  using Scalars = std::vector<std::pair<std::string, double>>;  // tag, value
  void Write(int64_t step, const Scalars& scalars, ReportTime now);
  void Append(const std::string& event);
  void Warn(const std::string& reason);

  const std::string run_;
  Observer& warned_;
  const bool continues_file_;
  std::string path_;
  UniqueFd fd_;
  bool has_warned_ = false;
};

}  // namespace ddprun::trainer

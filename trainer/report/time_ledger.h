// Accounts for the time of a run over all of its starts: the training time, and the lost time.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Works on rank 0. Add it before MetricsFile to the observers: it appends a line to that file at
// each checkpoint and at the end, and reads the earlier starts from its lines.
class TimeLedger final : public Observer {
 public:
  // `path`: metrics.jsonl. `terminal` gets a note with the totals of a run of a minute or more.
  // `continues_file`: see MetricsFile; the steps since the last line then count as training, except
  // for their validations, because their waiting times are unknown. `idle`: seconds from the last
  // line to a start that is no automatic restart; they are not counted.
  TimeLedger(std::string path, Observer& terminal, bool continues_file = false, double idle = 0)
      : path_(std::move(path)), terminal_(terminal), continues_file_(continues_file), idle_(idle) {}

  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStep(const StepReport& report, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;
  void OnTest(const EvalReport& report, ReportTime now) override;
  void OnSave(int64_t step, ReportTime now) override;
  void OnCheckpoint(const CheckpointReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  struct Seconds {
    double useful = 0;  // in steps that count, without their waiting times
    double data = 0;
    double ranks = 0;  // communication that was not hidden behind computation
    double saving = 0;
    double evaluation = 0;
  };

  void Write(int64_t step, const Seconds& spent, ReportTime now);
  // Returns the seconds outside the fields of Seconds: starts, repeated steps, and between starts.
  double LostSeconds(const Seconds& spent, double wall) const;

  const std::string path_;
  Observer& terminal_;
  bool continues_file_;  // and no step has been reported yet
  UniqueFd fd_;
  double idle_;       // of all starts, after OnBegin() has read the earlier ones
  double began_ = 0;  // wall clock of the first start, plus the idle time
  int64_t starts_ = 1;
  Seconds spent_;
  std::deque<std::pair<int64_t, Seconds>> saves_;  // of running saves: step, time spent before
};

}  // namespace ddprun::trainer

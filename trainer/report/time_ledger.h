// Where the time of a run went, over all of its starts: what of it trained, and what was lost.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Of rank 0. Goes before MetricsFile among the observers, to whose file it adds a line at each
// checkpoint and at the end, and from whose lines it knows the starts before.
class TimeLedger final : public Observer {
 public:
  // `path`: metrics.jsonl. `terminal` is told the sum of a run of a minute or more.
  // `goes_on`: as of MetricsFile. Then the steps since the last line count as training, but for
  // their validations: what they waited for is not known any more. `idle`: seconds before this
  // start in which nobody wanted the run to go on; they count for nothing.
  TimeLedger(std::string path, Observer& terminal, bool goes_on = false, double idle = 0)
      : path_(std::move(path)), terminal_(terminal), goes_on_(goes_on), idle_(idle) {}

  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStep(const StepReport& report, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;
  void OnSave(int64_t step, ReportTime now) override;
  void OnCheckpoint(const CheckpointReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  struct Seconds {
    double useful = 0;  // in steps that count, without what they waited for
    double data = 0;
    double ranks = 0;  // communication that nothing was left to hide behind
    double saving = 0;
    double evaluation = 0;
  };

  void Write(int64_t step, const Seconds& spent, ReportTime now);
  // What is in none of the others: starts, steps that were done again, the time in between.
  double LostSeconds(const Seconds& spent, double wall) const;

  const std::string path_;
  Observer& terminal_;
  bool goes_on_;  // and no step has been told yet
  UniqueFd fd_;
  double idle_;       // of all starts, once OnBegin has read of those before
  double began_ = 0;  // wall clock, of the first start, and so much later as was idle
  int64_t starts_ = 1;
  Seconds spent_;
  std::deque<std::pair<int64_t, Seconds>> begun_;  // of saves: steps, and what was spent until then
};

}  // namespace ddprun::trainer

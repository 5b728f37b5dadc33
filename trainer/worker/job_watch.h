// Observers that connect a run with the job of a batch system.
#pragma once

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/stop_signals.h"
#include "trainer/report/format.h"
#include "trainer/report/observer.h"
#include "trainer/worker/stop_request.h"

namespace ddprun::trainer {

// Measures steps and saves for the JobClock, and says when a stop signal leaves less time than the
// last save took.
class JobWatch final : public Observer {
 public:
  JobWatch(const StopRequest& stop, Observer& terminal) : stop_(stop), terminal_(terminal) {}

  void OnStep(const StepReport& report, ReportTime /*now*/) override {
    stop_.job().NoteStep(report.step_seconds);
  }
  void OnSave(int64_t step, ReportTime /*now*/) override {
    const double left = stop_.grace().left;
    const double needed = stop_.job().save_seconds();
    if (NotedStopSignal() == 0 || left >= needed) return;
    terminal_.OnNote("warning: the signal came late: the save of step " + std::to_string(step) +
                     " has " + Duration(left) + ", and the last one took " + Duration(needed));
  }
  void OnCheckpoint(const CheckpointReport& report, ReportTime /*now*/) override {
    if (report.error.empty()) stop_.job().NoteSave(report.seconds);
  }

 private:
  const StopRequest& stop_;
  Observer& terminal_;
};

// Tells the launcher how many steps have been saved since it started: without any, it does not put
// the job back into the queue. Workers that it has restarted add to what the file says.
class GainedSteps final : public Observer {
 public:
  explicit GainedSteps(std::string path) : path_(std::move(path)) {}

  void OnBegin(const RunHeader& header, ReportTime /*now*/) override {
    begin_ = header.resumed_step;
    std::ifstream(path_) >> before_;
    Write(before_);
  }
  void OnCheckpoint(const CheckpointReport& report, ReportTime /*now*/) override {
    if (report.error.empty()) Write(before_ + report.step - begin_);
  }

 private:
  void Write(int64_t steps) const { std::ofstream(path_) << steps << "\n"; }

  const std::string path_;
  int64_t before_ = 0;
  int64_t begin_ = 0;
};

}  // namespace ddprun::trainer

// Gives the launcher the command that continues the run, for its report if the job fails.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/report/observer.h"

namespace ddprun::trainer {

class ResumeNote : public Observer {
 public:
  // `has_checkpoint`: the run has a checkpoint when it begins. `leave` replaces the earlier
  // command; "" means that there is nothing to continue.
  ResumeNote(std::string command,
             bool has_checkpoint,
             std::function<void(std::string_view command)> leave)
      : command_(std::move(command)), has_checkpoint_(has_checkpoint), leave_(std::move(leave)) {}

  void OnBegin(const RunHeader& /*header*/, ReportTime /*now*/) override {
    if (has_checkpoint_) leave_(command_);
  }
  void OnCheckpoint(const CheckpointReport& report, ReportTime /*now*/) override {
    if (report.error.empty()) leave_(command_);
  }
  // Only a failed run needs the command: a stopped run has shown it, and a finished run needs none.
  void OnEnd(const RunEnd& end, ReportTime /*now*/) override {
    if (end.reason != "failed") leave_("");
  }

 private:
  const std::string command_;
  const bool has_checkpoint_;
  const std::function<void(std::string_view command)> leave_;
};

}  // namespace ddprun::trainer

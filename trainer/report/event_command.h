// Starts a command of the user at the events of a run (report.on_event).
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Each event starts a shell with the command, in the working folder of rank 0. Its standard input
// is a JSON object; its output goes to standard error. Training does not wait for commands; the end
// of the run waits a few seconds. One thread.
class EventCommand final : public Observer {
 public:
  // `told` gets a note about the first command that fails, and about events without a command.
  // `continues`: this process replaces another one, which has reported the start.
  EventCommand(std::string command, std::string folder, Observer& told, bool continues = false)
      : command_(std::move(command)),
        folder_(std::move(folder)),
        told_(told),
        continues_(continues) {}

  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;
  void OnTest(const EvalReport& report, ReportTime now) override;
  void OnCheckpoint(const CheckpointReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  struct Child {
    pid_t pid = -1;
    std::string event;
  };
  // `fields` is a JSON object.
  void Start(const std::string& event, const std::string& fields);
  // Looks for commands that have ended, and tells of the first failure.
  void Reap();
  void TellOnce(const std::string& text);

  const std::string command_;
  const std::string folder_;  // of the run
  Observer& told_;
  const bool continues_;
  std::string run_name_;
  std::vector<Child> children_;
  bool told_once_ = false;
};

}  // namespace ddprun::trainer

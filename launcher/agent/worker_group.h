// Starts one node's workers of one attempt and follows them to the last exit status.
#pragma once

#include <signal.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/group_handlers.h"
#include "launcher/agent/group_state.h"
#include "launcher/agent/group_workers.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/agent/worker_starter.h"
#include "launcher/process/clock.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class WorkerGroup {
 public:
  // `starter` and `flight`, which reads what the workers record, must outlive the group.
  WorkerGroup(const GroupSurroundings& surroundings,
              const GroupRules& rules,
              WorkerStarter& starter,
              GroupOutputPlan output,
              const FlightReader& flight,
              GroupHandlers handlers);

  // Starts the workers. Call it once. A worker that cannot be started ends the group: see
  // start_error().
  void Start(const std::vector<WorkerSpec>& specs);
  // Sends the signal to every worker's process group, and SIGKILL after the grace time.
  void Stop(int signal);
  // Sends SIGKILL now.
  void Kill() { Apply(state_.On(GroupEvent::kKillAsked)); }
  // Handles the end of a process, if it is a worker of this group.
  void OnExit(pid_t pid, const ProcessExit& exit);
  // Makes a worker's end with code 0 a failure (WorkerRecord::left), unless the group is stopping.
  void FailEnded(int local_rank, std::string left);

  GroupWorkers& workers() { return workers_; }
  const GroupWorkers& workers() const { return workers_; }
  // Returns the index of the worker that failed first, before any worker was told to stop.
  std::optional<size_t> first_failure() const { return first_failure_; }
  std::chrono::system_clock::time_point first_failure_time() const { return failure_time_; }
  // Returns whether the workers were told to stop and save, and not all have ended well.
  bool failed_to_save() const { return saving_ && !workers_.empty() && !workers_.ended_well(); }
  const std::optional<Error>& start_error() const { return start_error_; }

 private:
  void Started(size_t index, pid_t pid);
  void FailStart(Error error);
  void Apply(GroupAction action);
  GroupEvent WhenOneFails() const;
  // Looks for a replacement of a worker that a signal has ended. HandleNextLost() starts it when
  // the starter is not busy, or fails the group if there is none.
  void HandleLost(size_t index);
  void HandleNextLost();
  void Replace(size_t index, const WorkerSpec& replacement);
  // Handles a worker that has ended, and not well.
  void Fail(size_t index);
  void ApplyIfAllGone();
  void NoteFailure(size_t index);
  void ArmTimer(std::chrono::milliseconds time);

  GroupSurroundings surroundings_;
  const GroupRules rules_;
  const GroupHandlers handlers_;
  WorkerStarter& starter_;
  GroupWorkers workers_;
  GroupState state_;
  Clock::Alarm alarm_;  // the end of the grace time; at last the call of on_done
  std::deque<std::pair<size_t, std::optional<WorkerSpec>>> lost_;  // until the starter is not busy
  int stop_signal_ = SIGTERM;
  bool saving_ = false;  // the workers have been told to stop and should save
  std::optional<size_t> first_failure_;
  std::chrono::system_clock::time_point failure_time_;
  std::optional<Error> start_error_;
};

}  // namespace ddprun::launcher

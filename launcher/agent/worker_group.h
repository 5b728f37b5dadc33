// One node's workers of one attempt, from their start to the last exit status.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/agent/group_handlers.h"
#include "launcher/agent/group_state.h"
#include "launcher/agent/template_client.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/cli/target.h"
#include "launcher/hang/hang_watch.h"
#include "launcher/output/group_output.h"
#include "launcher/output/stream_plan.h"
#include "launcher/process/clock.h"
#include "launcher/report/failure_report.h"

namespace ddprun::launcher {

// Loop thread only.
class WorkerGroup {
 public:
  WorkerGroup(const GroupSurroundings& surroundings,
              const GroupRules& rules,
              GroupHandlers handlers);

  // One of these, once. A worker that cannot be started ends the group: see start_error().
  void Start(const Target& target,
             const std::vector<WorkerSpec>& specs,
             GroupOutputPlan output,
             int node_memory_fd);
  void StartFromTemplate(TemplateClient& worker_template,
                         const Environment& template_env,
                         const std::vector<WorkerSpec>& specs,
                         GroupOutputPlan output,
                         int node_memory_fd);

  // Before a start: makes up for workers that are lost.
  void ReplaceBy(ReplacementOf replacement_of) { replacement_of_ = std::move(replacement_of); }
  // Before a start: a further descriptor that every worker gets, and what they leave there.
  void ShareFlightRecorder(int fd, const FlightReader* flight);

  // Sends the signal to every worker's process group; SIGKILL after the grace.
  void Stop(int signal);
  // SIGKILL now.
  void Hurry() { Apply(state_.On(GroupEvent::kHurryAsked)); }
  // To the workers themselves, not to their children, which may not expect it.
  void Pass(int signal);
  // To the workers and their children: stopping and continuing them.
  void PassToAll(int signal);
  // The terminal has another size now.
  void FollowTerminal() {
    if (output_) output_->FollowTerminal();
  }

  // Takes the end of a process if it is one of the workers.
  void OnExit(pid_t pid, const ProcessExit& exit);

  // After on_done and the sweep of whatever the workers left behind: reads the rest of the output.
  void FinishOutput();
  // Complete, with last lines and error files, after FinishOutput. In local rank order.
  std::vector<WorkerRecord> Records() const;
  // Index of the worker that failed first, before anyone was told to stop.
  std::optional<size_t> first_failure() const { return first_failure_; }
  std::chrono::system_clock::time_point first_failure_time() const { return failure_time_; }
  // The exit code of the first worker that ended with one other than 0, told to stop or not.
  std::optional<int> first_nonzero_code() const { return first_nonzero_code_; }
  // Whether all have ended, and well: see EndsWell.
  bool ended_well() const;
  // They were told to stop and to save, and not all have.
  bool failed_to_save() const { return saving_ && !workers_.empty() && !ended_well(); }
  const std::optional<Error>& start_error() const { return start_error_; }
  // Those that have started and not ended, by local rank.
  std::vector<LiveWorker> Living() const;
  // Those that have ended well, likewise.
  std::vector<LiveWorker> EndedWell() const;
  // What a started worker, or all of them, have printed so far, in bytes: see GroupOutput.
  uint64_t bytes_seen(int local_rank) const { return output_->bytes_seen(local_rank); }
  uint64_t bytes_seen() const;

  // The end of this worker with code 0 was a failure: see WorkerRecord::left. Nothing happens once
  // the group is being stopped.
  void FailEnded(int local_rank, std::string left);

  // What a worker did when the first one failed: for its record.
  void NoteStanding(int local_rank, const std::string& standing);

 private:
  struct Worker {
    WorkerRecord record;
    Clock::Time ended_at;
    WorkerFds fds = {};  // for another process in its place
  };

  void OpenOutput(GroupOutputPlan plan);
  ForkOrder OrderFor(int local_rank, EnvironmentChange env, const WorkerFds& fds) const;
  void Replace(size_t index, Replacement replacement);
  // A new worker's standard output and error.
  Result<WorkerFds> Add(const WorkerSpec& spec);
  // The template has been told to fork: so long it is known here.
  void SetForking(TemplateClient* worker_template);
  void Started(size_t index, pid_t pid);
  void FailStart(Error error);
  void Apply(GroupAction action);
  GroupEvent WhenOneFails() const;
  // A signal has ended that worker; then those that were waiting for that.
  void Lose(size_t index);
  void LoseNext();
  // That worker has ended, and not well.
  void Fail(size_t index);
  void ApplyIfAllGone();
  void NoteFailure(size_t index);
  void SignalAll(int signal);
  void ArmTimer(std::chrono::milliseconds time);
  size_t NumAlive() const;
  WorkerRecord Complete(const Worker& worker) const;

  GroupSurroundings surroundings_;
  const GroupRules rules_;
  GroupHandlers handlers_;
  ReplacementOf replacement_of_;  // may be empty
  GroupState state_;
  Clock::Alarm alarm_;                 // when the time for ending is over, then the end itself
  std::optional<GroupOutput> output_;  // once started
  std::vector<Worker> workers_;
  TemplateClient* forking_ = nullptr;  // while it has been told to fork and has not answered
  int node_memory_fd_ = -1;
  int flight_recorder_fd_ = -1;
  const FlightReader* flight_ = nullptr;
  std::vector<size_t> lost_;  // workers that wait until the template can fork again
  int stop_signal_ = SIGTERM;
  bool saving_ = false;  // they have been told to stop and are to save
  Clock::Time stop_time_;
  std::optional<size_t> first_failure_;
  std::chrono::system_clock::time_point failure_time_;
  std::optional<int> first_nonzero_code_;
  std::optional<Error> start_error_;
};

}  // namespace ddprun::launcher

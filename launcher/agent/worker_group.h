// Starts one node's workers of one attempt and follows them to the last exit status.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/agent/group_handlers.h"
#include "launcher/agent/group_state.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/agent/worker_starter.h"
#include "launcher/hang/hang_watch.h"
#include "launcher/output/group_output.h"
#include "launcher/output/stream_plan.h"
#include "launcher/process/clock.h"
#include "launcher/report/failure_report.h"

namespace ddprun::launcher {

// Returns the spec of the process that replaces a worker that a signal has ended; nullopt means
// that the worker has failed.
using ReplacementOf = std::function<std::optional<WorkerSpec>(const WorkerRecord&)>;

// Use it on the loop thread only.
class WorkerGroup {
 public:
  WorkerGroup(const GroupSurroundings& surroundings,
              const GroupRules& rules,
              GroupHandlers handlers);

  // Starts the workers. Call it once; `starter` must outlive the group. A worker that cannot be
  // started ends the group: see start_error().
  void Start(const std::vector<WorkerSpec>& specs, WorkerStarter& starter, GroupOutputPlan output);

  // Sets how to replace lost workers. Call it before Start().
  void ReplaceBy(ReplacementOf replacement_of) { replacement_of_ = std::move(replacement_of); }
  // Sets the reader of what workers write into the flight recorder. Call it before Start().
  void ReadFlight(const FlightReader* flight) { flight_ = flight; }

  // Sends the signal to every worker's process group, and SIGKILL after the grace time.
  void Stop(int signal);
  // Sends SIGKILL now.
  void Hurry() { Apply(state_.On(GroupEvent::kHurryAsked)); }
  // Sends the signal to the workers only, because their children may not expect it.
  void Pass(int signal);
  // Sends the signal to the workers and their children, to stop and continue them.
  void PassToAll(int signal);
  // Tells workers that the terminal has another size now.
  void FollowTerminal() {
    if (output_) output_->FollowTerminal();
  }

  // Handles the end of a process, if it is a worker of this group.
  void OnExit(pid_t pid, const ProcessExit& exit);

  // Reads the rest of the output. Call it after on_done, when the processes that workers left
  // behind are gone.
  void FinishOutput();
  // Returns the records in local rank order. After FinishOutput() they are complete, with last
  // lines and error files.
  std::vector<WorkerRecord> Records() const;
  // Returns the index of the worker that failed first, before any worker was told to stop.
  std::optional<size_t> first_failure() const { return first_failure_; }
  std::chrono::system_clock::time_point first_failure_time() const { return failure_time_; }
  // Returns the first exit code other than 0 of a worker, also of one that was told to stop.
  std::optional<int> first_nonzero_code() const { return first_nonzero_code_; }
  // Returns whether all workers have ended well: see EndsWell().
  bool ended_well() const;
  // Returns whether the workers were told to stop and save, and not all have ended well.
  bool failed_to_save() const { return saving_ && !workers_.empty() && !ended_well(); }
  const std::optional<Error>& start_error() const { return start_error_; }
  // Returns the workers that have started and not ended, by local rank.
  std::vector<LiveWorker> Living() const;
  // Returns the workers that have ended well, by local rank.
  std::vector<LiveWorker> EndedWell() const;
  // Return how many bytes a started worker, or all workers, have printed so far: see GroupOutput.
  uint64_t bytes_seen(int local_rank) const { return output_->bytes_seen(local_rank); }
  uint64_t bytes_seen() const;

  // Makes a worker's end with code 0 a failure (WorkerRecord::left), unless the group is stopping.
  void FailEnded(int local_rank, std::string left);

  // Adds to a worker's record what it did when the first worker failed.
  void NoteStanding(int local_rank, const std::string& standing);

 private:
  struct Worker {
    WorkerRecord record;
    Clock::Time ended_at;
    WorkerFds fds = {};  // until it has started, or for a process that replaces it
  };

  // Adds a worker and returns the descriptors for its standard output and error.
  Result<const WorkerFds*> Add(const WorkerSpec& spec);
  void Replace(size_t index, const WorkerSpec& replacement);
  void Started(size_t index, pid_t pid);
  void FailStart(Error error);
  void Apply(GroupAction action);
  GroupEvent WhenOneFails() const;
  // Replaces a worker that a signal has ended, or fails the group. LoseNext() does so for workers
  // that were waiting for the starter.
  void Lose(size_t index);
  void LoseNext();
  // Handles a worker that has ended, and not well.
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
  ReplacementOf replacement_of_;  // may be empty: then lost workers have failed
  GroupState state_;
  Clock::Alarm alarm_;                 // the end of the grace time; at last the call of on_done
  std::optional<GroupOutput> output_;  // set by Start()
  std::vector<Worker> workers_;
  WorkerStarter* starter_ = nullptr;  // set by Start()
  const FlightReader* flight_ = nullptr;
  std::vector<size_t> lost_;  // workers that wait until the starter is not busy
  int stop_signal_ = SIGTERM;
  bool saving_ = false;  // the workers have been told to stop and should save
  Clock::Time stop_time_;
  std::optional<size_t> first_failure_;
  std::chrono::system_clock::time_point failure_time_;
  std::optional<int> first_nonzero_code_;
  std::optional<Error> start_error_;
};

}  // namespace ddprun::launcher

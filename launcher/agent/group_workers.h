// The workers of one attempt on this node: their processes, their output, and what is known of
// each.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/agent/group_handlers.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/hang/worker_activity.h"
#include "launcher/output/group_output.h"
#include "launcher/output/stream_plan.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class GroupWorkers {
 public:
  // `flight` must outlive it. `saves`: see IsSuccess().
  GroupWorkers(const GroupSurroundings& surroundings,
               bool saves,
               GroupOutputPlan output,
               const FlightReader& flight);

  // Adds a worker and returns the descriptors for its standard output and error, which stay open
  // until CloseFds().
  Result<const WorkerFds*> Add(const WorkerSpec& spec);
  const WorkerFds& fds(size_t index) const { return workers_[index].fds; }
  void CloseFds(size_t index) { workers_[index].fds = {}; }
  // Notes the process of a worker, which may replace a lost one.
  void NoteStart(size_t index, pid_t pid);
  // Drops the workers that have no process.
  void DropUnstarted();
  // Notes the end of a process and returns the index of its worker; nullopt means that it is no
  // worker that lives.
  std::optional<size_t> NoteExit(pid_t pid, const ProcessExit& exit);
  // Adds to the records of the living workers what they do now.
  void NoteActivities();
  // Sets the time from which WorkerRecord::ended_after counts.
  void NoteStop(Clock::Time time) { stop_time_ = time; }

  bool empty() const { return workers_.empty(); }
  size_t size() const { return workers_.size(); }
  // Returns what is known of a worker without its files: see Records().
  WorkerRecord& record(size_t index) { return workers_[index].record; }
  // Returns whether all workers have ended well: see IsSuccess().
  bool ended_well() const;
  // Return the workers that have started and not ended, and those that have ended well, by local
  // rank.
  std::vector<LiveWorker> Living() const;
  std::vector<LiveWorker> EndedWell() const;
  // Returns the first exit code other than 0 of a worker, also of one that was told to stop.
  std::optional<int> first_nonzero_code() const { return first_nonzero_code_; }

  // Sends the signal to the workers only, because their children may not expect it.
  void Signal(int signal) const;
  // Sends the signal to the workers and their children, to stop and continue them.
  void SignalWithChildren(int signal) const;
  // Sends a signal that ends the workers and their children, and notes it in the records.
  void TellToStop(int signal);
  // Tells workers that the terminal has another size now.
  void FollowTerminal() { output_.FollowTerminal(); }
  // Returns how many bytes all workers have printed so far: see GroupOutput.
  uint64_t bytes_seen() const;
  // Reads what a worker has written so far and returns its record.
  WorkerRecord CatchUp(size_t index);
  // Reads the rest of the output. Call it when the processes that workers left behind are gone.
  void FinishOutput() { output_.Finish(); }
  // Returns the records in local rank order. After FinishOutput() they are complete, with last
  // lines and error files.
  std::vector<WorkerRecord> Records() const;

 private:
  struct Worker {
    WorkerRecord record;
    Clock::Time ended_at;
    WorkerFds fds = {};
  };

  template <typename Filter>
  std::vector<LiveWorker> Where(Filter filter) const;
  WorkerRecord Complete(const Worker& worker) const;

  GroupSurroundings surroundings_;
  const bool saves_;
  GroupOutput output_;
  const FlightReader& flight_;
  std::vector<Worker> workers_;
  Clock::Time stop_time_;
  std::optional<int> first_nonzero_code_;
};

}  // namespace ddprun::launcher

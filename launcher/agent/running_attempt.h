// Runs this node's workers of one round: creates what they share, starts and ends them, and ends
// the processes that they leave behind.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/agent_plan.h"
#include "launcher/agent/attempt_memory.h"
#include "launcher/agent/hang_guard.h"
#include "launcher/agent/job_output.h"
#include "launcher/agent/lost_workers.h"
#include "launcher/agent/template_host.h"
#include "launcher/agent/worker_group.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/agent/worker_starter.h"
#include "launcher/hang/early_end.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class RunningAttempt {
 public:
  struct Handlers {
    // Called at most once, with the first worker that failed by itself. The others are stopping.
    std::function<void(const WorkerRecord&)> on_first_failure;
    std::function<void(const std::string& reason)> on_stuck;  // see LostWorkers::Handlers
    // Called once, from the loop, when no worker and no process that a worker started is left.
    std::function<void()> on_gone;
    // Returns whether a worker that a signal has ended is known to have run out of memory.
    std::function<bool(const WorkerRecord&)> out_of_memory;
  };

  // All arguments must outlive the attempt.
  RunningAttempt(const GroupSurroundings& surroundings,
                 const AgentPlan& plan,
                 const rendezvous::Membership& membership,
                 const JobOutput& output,
                 Handlers handlers);

  // Starts the workers. `worker_template` is ready, or nullptr if there is none. Returns an error
  // if it starts nothing; a worker that cannot be started ends the attempt with
  // group().start_error().
  Status Start(TemplateHost* worker_template);

  void Stop(int signal);
  void Kill();
  void Signal(int signal) { group_->workers().Signal(signal); }
  void OnExit(pid_t pid, const ProcessExit& exit);

  // From now on, a worker that ends with code 0 while others wait for it has failed. With
  // --hang_timeout, also calls `on_hang` if workers hang, and ends them. Call it after Start().
  void WatchForHang(HangGuard::StoreOf store, std::function<void(const HangReport&)> on_hang);
  // Returns the report of a hang; nullopt means that the workers have not hung.
  std::optional<HangReport> hang() const;

  // Returns whether the workers can wait until others replace those of a lost node.
  bool CanOutliveNode() const { return lost_workers_ && lost_workers_->CanOutliveNode(); }
  bool gone() const { return gone_; }
  // Processes that SIGKILL did not end. Complete when gone().
  const std::vector<pid_t>& unkillable() const { return unkillable_; }
  std::chrono::milliseconds lifetime() const;
  // REQUIRES: Start() was called and has not failed.
  WorkerGroup& group() { return *group_; }
  const WorkerGroup& group() const { return *group_; }

 private:
  bool one_node() const { return shared_.membership.nnodes == 1; }
  void OnFirstFailure(const WorkerRecord& worker);
  // Ends the watches, because workers that are stopping do not hang. The first call also notes what
  // the living workers do now, for the reports.
  void OnEnding();
  void OnWorkersDone();

  GroupSurroundings surroundings_;
  const AgentPlan& plan_;
  Attempt shared_;
  const JobOutput& output_;
  Handlers handlers_;
  const Clock::Time start_;
  AttemptMemory memory_;
  TemplateHost* template_ = nullptr;
  std::optional<LostWorkers> lost_workers_;
  bool standings_noted_ = false;
  ProgramStarter program_;                  // starts the workers if there is no template
  std::optional<WorkerGroup> group_;        // set by Start()
  std::optional<EarlyEndWatch> early_end_;  // after group_ and memory_, which it watches
  std::optional<HangGuard> hang_guard_;     // after group_ and memory_, which it watches
  bool gone_ = false;
  std::vector<pid_t> unkillable_;
};

}  // namespace ddprun::launcher

// This node's workers of one round: from what they share, over their start and end, to the last
// process that they have left behind.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/flight_reader.h"
#include "base/unique_fd.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/hang_guard.h"
#include "launcher/agent/job_output.h"
#include "launcher/agent/template_host.h"
#include "launcher/agent/worker_group.h"
#include "launcher/hang/early_end.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Loop thread only.
class RunningAttempt {
 public:
  struct Handlers {
    // The first worker that failed by itself; the others are being stopped. At most once.
    std::function<void(const WorkerRecord&)> on_first_failure;
    // Neither a worker nor anything that it has started is left. Once, from the loop.
    std::function<void()> on_gone;
    // Whether that worker, which a signal has ended, ran out of memory as far as one knows.
    std::function<bool(const WorkerRecord&)> out_of_memory;
  };

  // All arguments must outlive the attempt.
  RunningAttempt(const GroupSurroundings& surroundings,
                 const AgentPlan& plan,
                 const rendezvous::Membership& membership,
                 const JobOutput& output,
                 Handlers handlers);

  // `worker_template`: null, or one that is ready. An error when nothing was started; a worker
  // that cannot be started ends the attempt: see group().start_error().
  Status Start(TemplateHost* worker_template);

  void Stop(int signal);
  void Hurry();
  void Pass(int signal) { group_.Pass(signal); }
  void OnExit(pid_t pid, const ProcessExit& exit);

  // Once started: a worker that ends with code 0 while others wait for it becomes a failure. With
  // --hang_timeout also tells of workers that hang, and ends them.
  void WatchForHang(HangGuard::StoreOf store, std::function<void(const HangReport&)> on_hang);
  // nullopt: they have not hung.
  std::optional<HangReport> hang() const;

  bool gone() const { return gone_; }
  // What even SIGKILL did not end, once gone().
  const std::vector<pid_t>& unkillable() const { return unkillable_; }
  std::chrono::milliseconds lifetime() const;
  WorkerGroup& group() { return group_; }
  const WorkerGroup& group() const { return group_; }

 private:
  WorkerSpec SpecFor(int local_rank) const;
  // Another process in the place of a worker that a signal has ended, if the others wait for it.
  std::optional<Replacement> Replace(const WorkerRecord& lost);
  bool CanReplace(const WorkerRecord& lost) const;
  // The process that this worker is now, or was, can go on when another one is lost, and has the
  // state of the run.
  bool HasRecovered(int local_rank) const;
  int BornIn(int local_rank) const;
  void OnFirstFailure(const WorkerRecord& worker);
  // The workers are told to end: that they move no more is no hang. Notes what the living ones do
  // at this moment, for the reports; the first call counts.
  void OnEnding();
  void OnWorkersDone();
  void WatchForEarlyEnd(const HangGuard::StoreOf& store);

  GroupSurroundings surroundings_;
  const AgentPlan& plan_;
  const rendezvous::Membership membership_;
  const JobOutput& output_;
  Handlers handlers_;
  const Clock::Time start_;
  UniqueFd node_memory_;
  UniqueFd recorder_;
  std::unique_ptr<FlightReader> flight_;
  std::string folder_;  // for error files
  TemplateHost* template_ = nullptr;
  int generation_ = 0;       // how many workers have been replaced
  std::map<int, int> born_;  // the generation of each process that has replaced another
  bool standings_noted_ = false;
  WorkerGroup group_;
  std::unique_ptr<EarlyEndWatch> early_end_;  // likewise
  std::unique_ptr<HangGuard> hang_guard_;     // after group_ and flight_, which it watches
  bool gone_ = false;
  std::vector<pid_t> unkillable_;
};

}  // namespace ddprun::launcher

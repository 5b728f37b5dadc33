// Signals, run.max_time and the end of a SLURM job ask a run to stop before its last step.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/env.h"
#include "trainer/config/training_config.h"
#include "trainer/loop/step_boundary.h"
#include "trainer/worker/job_clock.h"

namespace ddprun::trainer {

// A later reason outweighs an earlier reason.
enum class StopReason : uint8_t { kNone, kTime, kJobEnd, kSignal, kInterrupt };

// Returns the exit status of a rank that has stopped: kStoppedStatus, or 128 + SIGINT.
int StopStatus(StopReason reason);
// Returns whether the launcher has stopped the ranks because nodes came or went: the job goes on by
// itself.
bool NodesJoinAnew();

// The stop requests to this process. One thread.
class StopRequest {
 public:
  // run.max_time counts from the job's start, if the launcher gives it, by a clock that never
  // jumps. Without it, the run stops before SLURM ends the job.
  StopRequest(const RunConfig& config, const Environment& environment);

  StopReason reason() const;
  // Returns the reason as text, when all ranks have stopped. Waits up to half a second for a signal
  // to this process if only another rank has got one, or if the nodes join anew: SLURM cancels a
  // job on all nodes within a tenth of a second, and another node may be the first.
  std::string Text() const;
  // Returns the grace of TORCH_ELASTIC_SHUTDOWN_TIMEOUT, counted from a signal to this process.
  // SLURM's warnings SIGUSR1 and SIGUSR2 leave time until the end of the job, if that is longer.
  StopGrace grace() const;
  JobClock& job() const { return *job_; }
  // Returns a line about the end of the job; "" if it does not limit the run.
  std::string JobEndText() const;

 private:
  std::chrono::steady_clock::time_point end_;
  StopGrace grace_;
  bool ends_with_job_ = false;     // no run.max_time was given
  bool killed_by_slurm_ = false;   // the launcher's time from SIGTERM to SIGKILL is SLURM's
  std::shared_ptr<JobClock> job_;  // one thread of this process
};

}  // namespace ddprun::trainer

// Ends the processes that a job's workers have left behind, while the agent goes on.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <vector>

#include "launcher/process/clock.h"
#include "launcher/process/job_sweep.h"

namespace ddprun::launcher {

// Ends strays: children of this process that are neither `known` nor bystanders. Orphans of the job
// become children, because this process is a subreaper. Strays in `sessions` get SIGTERM at once;
// all get SIGKILL after the grace. Loop thread only.
class StraySweep {
 public:
  using Done = std::function<void(std::vector<pid_t> left)>;

  // Calls `done` from the loop with the strays that are left: none, or those that do not end within
  // the limit. `known` must stay callable until then, or until this object is destroyed.
  StraySweep(Clock& clock,
             std::function<bool(pid_t)> known,
             std::set<pid_t> sessions,
             const SweepTimes& times,
             Done done,
             const InheritedChildren& others = {});

  // Called after children have been reaped.
  void Sweep();

 private:
  std::vector<pid_t> SignalStrays();
  void Finish(std::vector<pid_t> left);

  Clock& clock_;
  std::function<bool(pid_t)> known_;
  InheritedChildren others_;
  std::set<pid_t> sessions_;
  SweepTimes times_;
  Done done_;
  const Clock::Time start_;
  std::set<pid_t> signalled_;  // have got SIGTERM
  Clock::Alarm alarm_;         // the next look, then the end
};

}  // namespace ddprun::launcher

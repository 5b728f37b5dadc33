// Ending what the workers of an attempt have left behind, while the loop goes on.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "launcher/process/clock.h"
#include "launcher/process/job_sweep.h"

namespace ddprun::launcher {

// Loop thread only. A stray is a child of this process that is not `known`; orphans of the job
// become children, since this process is a subreaper. Those in a worker's own session get SIGTERM
// at once, as they would have if the worker had been stopped; all others get time to end by
// themselves. Then SIGKILL.
class StraySweep {
 public:
  using Done = std::function<void(std::vector<pid_t> left)>;

  // Calls `done` from the loop once no stray is left, or with those that even SIGKILL does not end
  // within the limit. `known` must stay callable until then, or until this object is destroyed.
  StraySweep(Clock& clock,
             std::function<bool(pid_t)> known,
             std::set<pid_t> sessions,
             const SweepTimes& times,
             Done done);

  // To be called when children have been reaped.
  void Look();

 private:
  std::vector<pid_t> SignalStrays();
  void Finish(std::vector<pid_t> left);

  Clock& clock_;
  std::function<bool(pid_t)> known_;
  std::set<pid_t> sessions_;
  SweepTimes times_;
  Done done_;
  const Clock::Time start_;
  std::set<pid_t> told_;  // SIGTERM is sent once
  Clock::Alarm alarm_;    // the next look, then the end
};

}  // namespace ddprun::launcher

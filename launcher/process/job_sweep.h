// Ending every process of a job, from inside (the agent) or from outside (the guard).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "launcher/process/clock.h"
#include "launcher/process/process_table.h"

namespace ddprun::launcher {

// Helpers that clean up behind a worker (Python's resource tracker unlinks its shared memory) get
// `grace` to end by themselves; whatever is left after `limit` does not end even by SIGKILL.
struct SweepTimes {
  std::chrono::milliseconds grace{300};
  std::chrono::milliseconds limit{10'000};
};

// Children that somebody else has started in the process that ddprun now is, as a shell does
// (`tensorboard & exec ddprun ...`), and what they leave to us: never ours to end. Their sessions
// tell them from processes of the job, each of which descends from the leader of a session of its
// own.
class Bystanders {
 public:
  Bystanders() = default;
  // The children of now but `own`. REQUIRES: the job has no processes yet.
  static Bystanders Find(pid_t own);

  bool none() const { return children_.empty(); }
  bool Contains(const ProcessEntry& process) const;

 private:
  std::map<pid_t, uint64_t> children_;  // with their start times
  std::set<pid_t> sessions_;            // theirs and ours
};

// Ends every child of this process but `spared` and `others`, and every process that becomes one by
// that (this process is a subreaper), until none is left. Blocks. Returns those that are left after
// the limit. REQUIRES: SIGCHLD is blocked.
std::vector<pid_t> EndChildren(pid_t spared,
                               const Bystanders& others = {},
                               const SweepTimes& times = {});

// The same for a job whose agent is gone, from outside: see SelectJobProcesses.
void EndJob(JobMarks marks, const SweepTimes& times);

// Loop thread only. A stray is a child of this process that is not `known` nor a bystander; orphans
// of the job become children, since this process is a subreaper. Those in a worker's own session
// get SIGTERM at once, as they would have if the worker had been stopped; all others get time to
// end by themselves. Then SIGKILL.
class StraySweep {
 public:
  using Done = std::function<void(std::vector<pid_t> left)>;

  // Calls `done` from the loop once no stray is left, or with those that even SIGKILL does not end
  // within the limit. `known` must stay callable until then, or until this object is destroyed.
  StraySweep(Clock& clock,
             std::function<bool(pid_t)> known,
             std::set<pid_t> sessions,
             const SweepTimes& times,
             Done done,
             const Bystanders& others = {});

  // To be called when children have been reaped.
  void Look();

 private:
  std::vector<pid_t> SignalStrays();
  void Finish(std::vector<pid_t> left);

  Clock& clock_;
  std::function<bool(pid_t)> known_;
  Bystanders others_;
  std::set<pid_t> sessions_;
  SweepTimes times_;
  Done done_;
  const Clock::Time start_;
  std::set<pid_t> told_;  // SIGTERM is sent once
  Clock::Alarm alarm_;    // the next look, then the end
};

}  // namespace ddprun::launcher

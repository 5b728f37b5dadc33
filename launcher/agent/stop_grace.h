// The time that workers get from a stop signal to SIGKILL.
#pragma once

#include <chrono>
#include <optional>

#include "base/env.h"

namespace ddprun::launcher {

class StopGrace {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using WallTime = std::chrono::system_clock::time_point;

  // The same time after every signal.
  StopGrace(Milliseconds time) : usual_(time), warned_(time) {}  // NOLINT: a time is a grace
  // `warned` after SIGUSR1 and SIGUSR2, by which a batch system warns. If the end of the job is
  // known, they leave time until then, but at least `usual`.
  StopGrace(Milliseconds usual, Milliseconds warned, std::optional<WallTime> job_end)
      : usual_(usual), warned_(warned), job_end_(job_end) {}

  Milliseconds usual() const { return usual_; }
  Milliseconds Of(int signal, WallTime now = std::chrono::system_clock::now()) const;

 private:
  Milliseconds usual_;
  Milliseconds warned_;
  std::optional<WallTime> job_end_ = {};
};

// Returns the grace of a job without --shutdown_timeout. `saves`: its workers save before they end.
// DDPRUN_KILL_WAIT and SLURM_JOB_END_TIME in `env` say when SLURM kills.
StopGrace GraceOf(const Environment& env, bool saves);

}  // namespace ddprun::launcher

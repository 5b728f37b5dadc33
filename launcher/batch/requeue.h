// Decides whether a job goes back into SLURM's queue. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/cli/options.h"

namespace ddprun::launcher {

// A worker's exit code that says: do not put the job back into the queue.
inline constexpr int kNeverRequeue = 76;

struct RequeueFacts {
  JobOutcome outcome = {};
  int limit = 0;     // --requeue
  int restarts = 0;  // SLURM_RESTART_COUNT
  // Steps that this start of the job has saved; nullopt if no worker has said it.
  std::optional<int64_t> gained_steps = {};
  std::string job_state = {};   // "" if SLURM does not answer
  std::string job_reason = {};  // of the state
};

struct RequeueDecision {
  bool requeues = false;
  std::string why_not = {};  // "" if there is nothing to say: the job did not ask for it
};

RequeueDecision DecideRequeue(const RequeueFacts& facts);

// Returns the job's name for scontrol: "7", or of an array's element "7_3".
std::string SlurmJobName(const Environment& env);

}  // namespace ddprun::launcher

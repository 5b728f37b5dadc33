// The times that SLURM sets for a job: when it ends, and how long after SIGTERM SLURM kills.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/env.h"

namespace ddprun::launcher {

// Reads the time left as squeue prints it for %L: "[days-][[hours:]minutes:]seconds", the least of
// several lines, because the groups of a heterogeneous job have a line each. Returns nullopt if all
// lines are other text, such as UNLIMITED.
std::optional<std::chrono::seconds> ReadTimeLeft(std::string_view text);

// Reads KillWait from the output of "scontrol show config"; nullopt if it is not there.
std::optional<std::chrono::seconds> ReadKillWait(std::string_view config);

// Returns the environment of a SLURM job with SLURM_JOB_END_TIME, which old versions of SLURM do
// not set. Sets DDPRUN_KILL_WAIT, too, if `asks_kill_wait`: SLURM's KillWait in seconds. Asks
// squeue and scontrol, and waits at most five seconds for each.
Environment WithSlurmTimes(Environment env, bool asks_kill_wait);

}  // namespace ddprun::launcher

#include "launcher/agent/stop_grace.h"

#include <signal.h>

#include <algorithm>

#include "base/slurm_step.h"

namespace ddprun::launcher {

namespace {

// ddprun ends the workers so long before SLURM kills all, in order to report it.
constexpr std::chrono::seconds kReserve{1};

}  // namespace

StopGrace::Milliseconds StopGrace::Of(int signal, WallTime now) const {
  if (signal != SIGUSR1 && signal != SIGUSR2) return usual_;
  if (!job_end_ || *job_end_ - now > kNoSlurmLimit) return warned_;
  return std::max(usual_, std::chrono::duration_cast<Milliseconds>(*job_end_ - now));
}

StopGrace GraceOf(const Environment& env, bool saves) {
  // torchrun's time, and longer for workers of ddp-trainer, which finish their step and save.
  const std::chrono::seconds most(saves ? 300 : 30);
  const auto kill_wait = ParseInt(env.GetOr("DDPRUN_KILL_WAIT", ""));
  if (!kill_wait) return StopGrace(most);
  const auto before_kill = std::max(std::chrono::seconds(*kill_wait) - kReserve, kReserve);
  std::optional<StopGrace::WallTime> end;
  if (const auto seconds = ParseInt(env.GetOr("SLURM_JOB_END_TIME", ""))) {
    end = StopGrace::WallTime(std::chrono::seconds(*seconds));
  }
  return {saves ? before_kill : std::min(before_kill, most), most, end};
}

}  // namespace ddprun::launcher

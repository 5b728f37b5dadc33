#include "launcher/batch/requeue.h"

#include <ddprun/error.h>

namespace ddprun::launcher {

RequeueDecision DecideRequeue(const RequeueFacts& facts) {
  const JobOutcome& outcome = facts.outcome;
  const auto either = [&](int code) {
    return outcome.exit_code == code || outcome.worker_code == code;
  };
  if (outcome.exit_code == 0) return {};
  if (either(kNeverRequeue)) {
    return {.why_not = "a worker ended with code 76, which forbids it"};
  }
  if (outcome.interrupted || !(either(kStoppedStatus) || outcome.lost_node)) return {};
  // SLURM shows COMPLETING while it ends a job: after scancel, after a requeue of its own, and at
  // the time limit, after which alone the job may go on.
  const bool over = facts.job_reason == "TimeLimit";
  if (!facts.job_state.empty() && facts.job_state != "RUNNING" && !over) {
    return {.why_not = "SLURM itself ends the job (state " + facts.job_state + ")"};
  }
  if (facts.restarts >= facts.limit) {
    return {.why_not = "SLURM has restarted it " + std::to_string(facts.restarts) +
                       " times, and --requeue allows " + std::to_string(facts.limit)};
  }
  if (facts.gained_steps && *facts.gained_steps <= 0) {
    return {.why_not = "this start has saved no step, so the next one would not either"};
  }
  return {.requeues = true};
}

std::string SlurmJobName(const Environment& env) {
  const auto array = env.Get("SLURM_ARRAY_JOB_ID");
  const auto task = env.Get("SLURM_ARRAY_TASK_ID");
  return array && task ? *array + "_" + *task : env.GetOr("SLURM_JOB_ID", "");
}

}  // namespace ddprun::launcher

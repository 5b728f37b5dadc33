#include "launcher/batch/batch_job.h"

#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "launcher/batch/gained_steps.h"
#include "launcher/batch/requeue.h"
#include "launcher/batch/slurm_command.h"
#include "launcher/batch/slurm_times.h"

namespace ddprun::launcher {

namespace {

constexpr std::chrono::seconds kRequeuePatience{10};

// Asks SLURM to put the job back. SLURM then ends the job, this process too: what is to be said is
// said before.
void Requeue(const std::string& job,
             const RequeueFacts& facts,
             const Environment& env,
             const Log& log) {
  log.Info("putting job " + job + " back into SLURM's queue (" +
           std::to_string(facts.restarts + 1) + " of " + std::to_string(facts.limit) + ")");
  const auto answer = RunSlurmCommand({"scontrol", "requeue", job}, env, kRequeuePatience);
  if (answer && answer->status == 0) return;
  log.Warning("job " + job + " is not back in the queue: " +
              (answer ? "scontrol requeue says: " + answer->text.substr(0, answer->text.find('\n'))
                      : "scontrol cannot be run here") +
              ". The batch script can do it, after srun:\n"
              "  if [ $? -eq 75 ]; then scontrol requeue " +
              job + "; fi");
}

}  // namespace

Result<int> RunInBatchJob(Options options, const Environment& env, RunJobOptions run) {
  if (!env.Get("SLURM_JOB_ID") || options.dry_run) return run(std::move(options), env);
  Environment own = WithSlurmTimes(env, !options.shutdown_timeout.has_value());
  if (options.requeues == 0) return run(std::move(options), own);
  const Log log =
      Log::ToStderr({.name = "ddprun", .level = options.log_level, .time = options.log_time});
  DDPRUN_ASSIGN(const GainedSteps gained, GainedSteps::Create());
  own.Set(GainedSteps::kVariable, gained.path());
  RequeueFacts facts;
  facts.limit = options.requeues;
  DDPRUN_ASSIGN(const int64_t restarts, env.GetInt("SLURM_RESTART_COUNT", 0, 0, 1 << 30));
  facts.restarts = static_cast<int>(restarts);
  const auto outcome = std::make_shared<JobOutcome>();
  options.outcome = outcome;
  Result<int> code = run(std::move(options), own);
  if (!code || !outcome->may_requeue) return code;
  facts.outcome = *outcome;
  facts.gained_steps = gained.Read();
  const std::string job = SlurmJobName(env);
  if (*code != 0) {
    const auto answer =
        RunSlurmCommand({"scontrol", "show", "job", "-o", job}, env, kRequeuePatience);
    if (answer) {
      facts.job_state = ReadJobField("JobState", answer->text);
      facts.job_reason = ReadJobField("Reason", answer->text);
    }
  }
  const RequeueDecision decision = DecideRequeue(facts);
  if (decision.requeues) Requeue(job, facts, env, log);
  if (!decision.why_not.empty()) {
    log.Info("job " + job + " does not go back into the queue: " + decision.why_not);
  }
  return code;
}

}  // namespace ddprun::launcher

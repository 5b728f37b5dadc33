#include "launcher/run.h"

#include <utility>

#include "base/env.h"
#include "base/terminal.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/plan_job.h"
#include "launcher/process/guard.h"
#include "launcher/process/job.h"
#include "launcher/process/signals.h"
#include "launcher/process/standard_descriptors.h"

namespace ddprun::launcher {

namespace {

Result<int> RunJob(Options options, const Environment& env) {
  // All checks that can refuse the job come before a process is started.
  DDPRUN_ASSIGN(AgentPlan plan, PlanJob(std::move(options), env));
  // Made first, so destroyed last: a late signal ends the process only after the clean-up.
  const SignalMask mask(plan.options.signals_to_handle);
  JobFolder folder(env);
  plan.job_folder = folder.path();
  DDPRUN_ASSIGN(Guard guard, Guard::Start(plan.job_id, plan.job_folder));
  DDPRUN_TRY(folder.Create());
  Result<int> code = RunAgent(std::move(plan), mask, guard);
  folder.Remove();
  guard.Dismiss();
  return code;
}

Result<int> RunWithOptions(Options options, const Environment& env) {
  if (options.dry_run) return DryRun(std::move(options), env);
  if (options.sweep.empty()) return RunJob(std::move(options), env);
  return SweepConfig(std::move(options), env, RunJob);
}

}  // namespace

int Run(const std::vector<std::string>& args, std::span<const Subcommand> subcommands) {
  OpenMissingStandardDescriptors();
  const Environment env = Environment::OfProcess();
  return ExitCodeOf(RunCommandLine(args, env, subcommands, RunWithOptions), env);
}

}  // namespace ddprun::launcher

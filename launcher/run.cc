#include "launcher/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/terminal.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/virtual_local_rank.h"
#include "launcher/cli/device_count.h"
#include "launcher/cli/numa_binding.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/commands.h"
#include "launcher/doctor/doctor.h"
#include "launcher/process/guard.h"
#include "launcher/process/job.h"
#include "launcher/process/signals.h"
#include "launcher/report/report_file.h"
#include "launcher/store/store_command.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/sweep_plan.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

namespace {

// Opens missing descriptors 0 to 2, so that no later file becomes standard output.
void OpenMissingStandardDescriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

Result<int> RunJob(Options options, const Environment& env) {
  AgentPlan plan;
  plan.env = env;
  // All checks that can refuse the job come before a process is started.
  DDPRUN_ASSIGN(plan.target, ResolveTarget(options, env, ProgramFolder()));
  DDPRUN_ASSIGN(const int workers, CountWorkersHere(options.nproc_per_node, env));
  options.rdzv.local_world_size = workers;
  if (options.virtual_local_rank) DDPRUN_TRY(CheckVirtualLocalRank(env, workers));
  if (!options.numa_binding.empty()) {
    DDPRUN_ASSIGN(plan.cpus,
                  BindWorkers(options.numa_binding, workers, ReadCpuTopology(env, AllowedCpus())));
  }
  plan.host = rendezvous::HostName();
  if (!options.report_file.empty()) {
    DDPRUN_TRY(CheckReportFile(ReportPath(options.report_file, options.rdzv.node_rank.value_or(0),
                                          plan.host, options.several_nodes())));
  }
  plan.options = std::move(options);
  if (plan.options.dry_run) {
    std::fputs(DryRunText(plan, UsableCores()).c_str(), stdout);
    return 0;
  }
  if (plan.options.standalone) plan.options.rdzv.run_id = MakeUuid();
  // Made first, so destroyed last: a late signal ends the process only after the clean-up.
  const SignalMask mask(plan.options.signals_to_handle);
  DDPRUN_ASSIGN(const JobFolder folder, JobFolder::Create(env));
  plan.job_folder = folder.path();
  plan.job_id = MakeJobId(env);
  plan.job_began = std::chrono::steady_clock::now();
  plan.color = WantsColor(env);
  DDPRUN_ASSIGN(Guard guard, Guard::Start(plan.job_id, plan.job_folder));
  Result<int> code = RunAgent(std::move(plan), mask, guard);
  guard.Dismiss();
  return code;
}

int Fail(const Error& error, const Environment& env) {
  std::fputs(RenderForTerminal(error, env).c_str(), stderr);
  return ExitStatus(error.code);
}

Result<int> RunWithOptions(Options options, const Environment& env) {
  if (options.sweep.empty() && !options.dry_run) return RunJob(std::move(options), env);
  // Errors that all runs of a sweep share are shown once.
  DDPRUN_ASSIGN(const Target target, ResolveTarget(options, env, ProgramFolder()));
  DDPRUN_ASSIGN(const int workers, CountWorkersHere(options.nproc_per_node, env));
  const auto check = [&](const std::vector<SweepRun>& runs) {
    return CheckConfig(options, target, workers, runs);
  };
  if (!options.dry_run) {
    return RunSweep(
        {.options = options, .workers = workers, .check = check, .run = [&env](Options run) {
           const Result<int> code = RunJob(std::move(run), env);
           return code ? *code : Fail(code.error(), env);
         }});
  }
  std::vector<SweepRun> runs;
  if (!options.sweep.empty()) {
    DDPRUN_ASSIGN(runs, PlanSweep(options.sweep));
  }
  if (target.is_trainer_config) {
    DDPRUN_ASSIGN(const int code, check(runs));
    if (code != 0) return code;
  }
  if (!runs.empty()) {
    std::fputs(("# The first of " + std::to_string(runs.size()) + " runs:\n").c_str(), stdout);
    for (const std::string& pair : runs.front().Overrides()) options.overrides.push_back(pair);
  }
  return RunJob(std::move(options), env);
}

constexpr std::array<Subcommand, 3> kSubcommands = {{
    {"doctor", "[--gpu] [--nodes] [--json]", "what this machine can do, and what is missing",
     RunDoctor},
    {"store", "[options]", "a store on its own, see ddprun store --help", RunStoreCommand},
    {"explain", "NAME", "what a message, or a key of a config, means", RunExplain},
}};

}  // namespace

std::span<const Subcommand> AllSubcommands() {
  return kSubcommands;
}

int Run(const std::vector<std::string>& args, std::span<const Subcommand> subcommands) {
  OpenMissingStandardDescriptors();
  const Environment env = Environment::OfProcess();
  if (!args.empty() && args.front() == "help") {
    std::vector<std::string> asked(args.begin() + 1, args.end());
    asked.emplace_back("--help");
    return Run(asked, subcommands);
  }
  for (const Subcommand& command : subcommands) {
    if (args.empty() || args.front() != command.name) continue;
    const Result<int> code = command.run({args.begin() + 1, args.end()}, env);
    return code ? *code : Fail(code.error(), env);
  }
  auto parsed = ParseOptions(args, env, subcommands);
  if (!parsed) return Fail(parsed.error(), env);
  if (const auto* text = std::get_if<TextToPrint>(&*parsed)) {
    std::fputs(text->text.c_str(), stdout);
    return 0;
  }
  if (std::holds_alternative<VersionsToPrint>(*parsed)) {
    std::fputs(VersionsText(env).c_str(), stdout);
    return 0;
  }
  const Options& options = std::get<Options>(*parsed);
  const Log log =
      Log::ToStderr({.name = "ddprun", .level = options.log_level, .time = options.log_time});
  for (const std::string& line : options.notes) log.Info(line);
  const Result<int> code = RunWithOptions(std::get<Options>(*std::move(parsed)), env);
  return code ? *code : Fail(code.error(), env);
}

}  // namespace ddprun::launcher

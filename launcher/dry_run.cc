#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/flight_recorder.h"
#include "base/shell_text.h"
#include "launcher/agent/worker_defaults.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/cli/device_count.h"
#include "launcher/cli/target.h"
#include "launcher/commands.h"
#include "launcher/plan_job.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/sweep_plan.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kFreePort = "<a free port>";
constexpr std::string_view kLogFolder = "<log folder>";
// Variables that have a meaning only in one running job.
constexpr std::array<std::string_view, 4> kOfOneJob = {
    "DDPRUN_JOB_ID", "DDPRUN_JOB_BEGAN_NS", "DDPRUN_NODE_MEMORY_FD", kFlightRecorderVariable};

// Puts a placeholder for the id of a --standalone job, which is made at the start.
AgentPlan WithPlaceholders(AgentPlan plan) {
  if (plan.options.standalone) plan.options.rdzv.run_id = "<a new id>";
  return plan;
}

Attempt MakeAttempt(const AgentPlan& plan, int usable_cores) {
  const Options& options = plan.options;
  Attempt attempt{.plan = plan, .usable_cores = usable_cores};
  rendezvous::Membership& node = attempt.membership;
  node.node_rank = options.rdzv.node_rank.value_or(0);
  node.nnodes = options.rdzv.rules.max_nodes;
  node.base_rank = node.node_rank * plan.local_world_size();
  node.world_size = node.nnodes * plan.local_world_size();
  node.role_base_rank = node.base_rank;
  node.role_world_size = node.world_size;
  node.master_addr = options.backend->fixed ? options.rdzv.endpoint.host : "<first node>";
  if (options.log_dir != "/dev/null") attempt.error_folder = std::string(kLogFolder) + "/attempt_0";
  return attempt;
}

std::string MasterPort(const Options& options) {
  const uint16_t port = options.backend->fixed ? options.rdzv.endpoint.port : 0;
  return port == 0 ? std::string(kFreePort) : std::to_string(port);
}

// Returns only variables that ddprun sets: those that a worker would have in an empty environment.
Environment OwnVariables(const Attempt& attempt, const Environment& all, int local_rank) {
  const AgentPlan& plan = attempt.plan;
  AgentPlan bare = plan;
  bare.env = Environment();
  Attempt of_bare{.plan = bare,
                  .membership = attempt.membership,
                  .error_folder = attempt.error_folder,
                  .usable_cores = attempt.usable_cores};
  Environment own;
  for (const std::string& entry : MakeWorkerSpec(of_bare, local_rank).env.Entries()) {
    const std::string name = entry.substr(0, entry.find('='));
    if (std::find(kOfOneJob.begin(), kOfOneJob.end(), name) != kOfOneJob.end()) continue;
    if (IsWorkerDefault(name) && plan.env.Get(name)) continue;  // the user's value
    own.Set(name, all.GetOr(name, ""));
  }
  own.Set("MASTER_PORT", MasterPort(plan.options));
  return own;
}

std::string Command(const Target& target, const WorkerSpec& spec) {
  std::string text;
  if (!spec.cpus.empty()) text += "taskset --cpu-list " + FormatCpuList(spec.cpus) + " ";
  for (size_t i = 0; i < spec.argv.size(); ++i) {
    const std::string& word = i == 0 ? target.program : spec.argv[i];
    text += (i == 0 ? "" : " ") + QuoteForShell(word);
  }
  return text;
}

std::string Header(const Attempt& attempt) {
  const AgentPlan& plan = attempt.plan;
  const rendezvous::Membership& node = attempt.membership;
  const int last = node.base_rank + plan.local_world_size() - 1;
  std::string text = "# Nothing is started. Node " + std::to_string(node.node_rank) + " of " +
                     std::to_string(node.nnodes) + " would run ranks " +
                     std::to_string(node.base_rank) + " to " + std::to_string(last) + " of " +
                     std::to_string(node.world_size) + ".\n";
  if (!plan.options.backend->fixed) {
    text += "# With " + std::string(plan.options.backend->name) +
            " the nodes' ranks, their number and the store's address are settled when\n"
            "# they meet; this is what it would be with " +
            std::to_string(node.nnodes) + " nodes.\n";
  }
  if (plan.options.several_nodes()) {
    text +=
        "# Ranks as if every node had " + std::to_string(plan.local_world_size()) + " workers.\n";
  }
  if (!plan.target.template_argv.empty()) {
    text += "# The ranks are forked from one process, " + plan.target.template_text + ".\n";
  }
  text += "# Left out, because they mean one running job:";
  for (const std::string_view name : kOfOneJob) text += " " + std::string(name);
  text += "\n";
  return text;
}

// Returns the runs of --sweep; none without it.
Result<std::vector<SweepRun>> RunsOf(const Options& options) {
  if (options.sweep.empty()) return std::vector<SweepRun>();
  return PlanSweep(options.sweep, SweepChoiceOf(options));
}

// Returns the text of --dry_run.
std::string DryRunText(const AgentPlan& asked, int usable_cores) {
  const AgentPlan plan = WithPlaceholders(asked);
  const Attempt attempt = MakeAttempt(plan, usable_cores);
  std::string text = Header(attempt);
  for (int local_rank = 0; local_rank < plan.local_world_size(); ++local_rank) {
    const WorkerSpec spec = MakeWorkerSpec(attempt, local_rank);
    text += "\n# Rank " + std::to_string(spec.rank) + ", local rank " + std::to_string(local_rank) +
            "\nenv \\\n";
    for (const std::string& entry : OwnVariables(attempt, spec.env, local_rank).Entries()) {
      text += "  " + QuoteForShell(entry) + " \\\n";
    }
    text += "  " + Command(plan.target, spec) + "\n";
  }
  return text;
}

}  // namespace

Result<int> CheckTarget(const Options& options, const Environment& env) {
  DDPRUN_ASSIGN(const Target target, ResolveTarget(options, env, ProgramFolder()));
  DDPRUN_ASSIGN(const int workers, CountWorkersHere(options.nproc_per_node, env));
  DDPRUN_ASSIGN(const std::vector<SweepRun> runs, RunsOf(options));
  return target.is_trainer_config ? CheckConfig(options, target, workers, runs) : Result<int>(0);
}

Result<int> DryRun(Options options, const Environment& env) {
  DDPRUN_ASSIGN(const int code, CheckTarget(options, env));
  if (code != 0) return code;
  DDPRUN_ASSIGN(const std::vector<SweepRun> runs, RunsOf(options));
  if (!runs.empty()) {
    std::fputs(("# The first of " + std::to_string(runs.size()) + " runs:\n").c_str(), stdout);
    for (const std::string& pair : runs.front().Overrides()) options.overrides.push_back(pair);
  }
  DDPRUN_ASSIGN(const AgentPlan plan, PlanJob(std::move(options), env));
  std::fputs(DryRunText(plan, UsableCores()).c_str(), stdout);
  return 0;
}

}  // namespace ddprun::launcher

#include "launcher/dry_run.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/flight_recorder.h"
#include "launcher/agent/worker_spec.h"

namespace ddprun::launcher {

namespace {

// As in the agent: torchrun's port of several nodes.
constexpr uint16_t kDefaultPort = 29500;
constexpr std::string_view kFreePort = "<a free port>";
constexpr std::string_view kLogFolder = "<log folder>";
// What means one running job and nothing without it.
constexpr std::array<std::string_view, 3> kOfOneJob = {
    "DDPRUN_JOB_ID", "DDPRUN_NODE_MEMORY_FD", kFlightRecorderVariable};

bool IsElastic(const Options& options) {
  return options.rdzv_backend == "c10d";
}

Attempt MakeAttempt(const DryRun& run) {
  const Options& options = run.options;
  Attempt attempt;
  rendezvous::Membership& node = attempt.membership;
  node.node_rank = options.node_rank.value_or(0);
  node.nnodes = options.max_nodes;
  node.base_rank = node.node_rank * run.local_world_size;
  node.world_size = node.nnodes * run.local_world_size;
  node.role_base_rank = node.base_rank;
  node.role_world_size = node.world_size;
  node.master_addr = IsElastic(options) ? "<first node>" : options.master_addr;
  attempt.local_world_size = run.local_world_size;
  attempt.run_id = options.standalone ? "<a new id>" : options.rdzv_id;
  if (options.log_dir != "/dev/null") attempt.error_folder = std::string(kLogFolder) + "/attempt_0";
  attempt.usable_cores = run.usable_cores;
  attempt.role = options.role;
  attempt.max_restarts = options.max_restarts;
  attempt.signals_to_handle = options.signals_text;
  attempt.virtual_local_rank = options.virtual_local_rank;
  attempt.cpus = run.cpus;
  return attempt;
}

std::string MasterPort(const Options& options) {
  if (IsElastic(options)) return std::string(kFreePort);
  if (options.master_port) return std::to_string(*options.master_port);
  return options.several_nodes() ? std::to_string(kDefaultPort) : std::string(kFreePort);
}

// Only what ddprun sets: all that a worker would have if there were nothing in the environment.
Environment OwnVariables(const DryRun& run, const Attempt& attempt, int local_rank) {
  const Environment all = MakeWorkerSpec(run.target, attempt, local_rank, run.env).env;
  Environment own;
  for (const std::string& entry :
       MakeWorkerSpec(run.target, attempt, local_rank, Environment()).env.Entries()) {
    const std::string name = entry.substr(0, entry.find('='));
    if (std::find(kOfOneJob.begin(), kOfOneJob.end(), name) != kOfOneJob.end()) continue;
    // The user's own values stay as they are.
    const bool users = name == "OMP_NUM_THREADS" || name == "PYTHONFAULTHANDLER" ||
                       name == "TORCH_NCCL_ASYNC_ERROR_HANDLING";
    if (users && run.env.Get(name)) continue;
    own.Set(name, all.GetOr(name, ""));
  }
  if (const auto gpu = all.Get("CUDA_VISIBLE_DEVICES"); gpu && attempt.virtual_local_rank) {
    own.Set("CUDA_VISIBLE_DEVICES", *gpu);
  }
  own.Set("MASTER_PORT", MasterPort(run.options));
  return own;
}

std::string Command(const DryRun& run, const WorkerSpec& spec) {
  std::string text;
  if (!spec.cpus.empty()) text += "taskset --cpu-list " + FormatCpuList(spec.cpus) + " ";
  for (size_t i = 0; i < spec.argv.size(); ++i) {
    // Ranks are forked from one ddp-trainer --template; alone, each would be ddp-trainer CONFIG.
    if (run.target.is_trainer_config && spec.argv[i] == "--template") continue;
    const std::string& word = i == 0 ? run.target.program : spec.argv[i];
    text += (i == 0 ? "" : " ") + ShellQuoted(word);
  }
  return text;
}

std::string Header(const DryRun& run, const Attempt& attempt) {
  const rendezvous::Membership& node = attempt.membership;
  const int last = node.base_rank + run.local_world_size - 1;
  std::string text = "# Nothing is started. Node " + std::to_string(node.node_rank) + " of " +
                     std::to_string(node.nnodes) + " would run ranks " +
                     std::to_string(node.base_rank) + " to " + std::to_string(last) + " of " +
                     std::to_string(node.world_size) + ".\n";
  if (IsElastic(run.options)) {
    text +=
        "# With c10d the nodes' ranks, their number and the store's address are settled when\n"
        "# they meet; this is what it would be with " +
        std::to_string(node.nnodes) + " nodes.\n";
  }
  if (run.options.several_nodes()) {
    text += "# Ranks as if every node had " + std::to_string(run.local_world_size) + " workers.\n";
  }
  if (run.target.is_trainer_config) {
    text += "# The ranks are forked from one process, " + ShellQuoted(run.target.program) +
            " --template.\n";
  }
  text += "# Left out, because they mean one running job:";
  for (const std::string_view name : kOfOneJob) text += " " + std::string(name);
  text += "\n";
  return text;
}

}  // namespace

std::string ShellQuoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./:=,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string DryRunText(const DryRun& run) {
  const Attempt attempt = MakeAttempt(run);
  std::string text = Header(run, attempt);
  for (int local_rank = 0; local_rank < run.local_world_size; ++local_rank) {
    const WorkerSpec spec = MakeWorkerSpec(run.target, attempt, local_rank, run.env);
    text += "\n# Rank " + std::to_string(spec.rank) + ", local rank " + std::to_string(local_rank) +
            "\nenv \\\n";
    for (const std::string& entry : OwnVariables(run, attempt, local_rank).Entries()) {
      text += "  " + ShellQuoted(entry) + " \\\n";
    }
    text += "  " + Command(run, spec) + "\n";
  }
  return text;
}

}  // namespace ddprun::launcher

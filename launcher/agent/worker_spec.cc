#include "launcher/agent/worker_spec.h"

#include <algorithm>
#include <optional>

#include "base/flight_recorder.h"
#include "base/text.h"
#include "launcher/cli/node_flags.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kLocalRank = "local_rank";

bool IsIdentifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Returns how many characters of `text`, which follows a '$', name the local rank: "{local_rank}",
// or "local_rank" at the end of an identifier. 0 means that it does not name the local rank.
size_t LocalRankLength(std::string_view text) {
  if (text.starts_with("{local_rank}")) return kLocalRank.size() + 2;
  const bool bare = text.starts_with(kLocalRank) &&
                    (text.size() == kLocalRank.size() || !IsIdentifier(text[kLocalRank.size()]));
  return bare ? kLocalRank.size() : 0;
}

void SetRanks(const Attempt& attempt, int local_rank, Environment& env) {
  const rendezvous::Membership& node = attempt.membership;
  const Options& options = attempt.plan.options;
  env.Set("RANK", std::to_string(node.base_rank + local_rank));
  env.Set("WORLD_SIZE", std::to_string(node.world_size));
  env.Set("LOCAL_RANK", options.virtual_local_rank ? "0" : std::to_string(local_rank));
  env.Set("LOCAL_WORLD_SIZE", std::to_string(options.rdzv.local_world_size));
  env.Set("GROUP_RANK", std::to_string(node.node_rank));
  env.Set("GROUP_WORLD_SIZE", std::to_string(node.nnodes));
  env.Set("ROLE_RANK", std::to_string(node.role_base_rank + local_rank));
  env.Set("ROLE_WORLD_SIZE", std::to_string(node.role_world_size));
  env.Set("ROLE_NAME", options.rdzv.role);
}

// Sets the variables that only ddp-trainer reads.
void SetForTrainer(const Attempt& attempt, Environment& env) {
  // Seconds from the stop signal to SIGKILL.
  std::string seconds = std::to_string(static_cast<double>(attempt.plan.grace().count()) / 1000);
  env.Set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", seconds);
  // Differs from the restart count if nodes came or went, which starts a round without a restart.
  env.Set("DDPRUN_ROUND", std::to_string(attempt.membership.round));
  env.Set("DDPRUN_NODE_FLAGS", NodeFlagsText(attempt.plan.options));
}

// Returns the GPU that the worker sees as its device 0.
std::string OwnDevice(const Environment& base, int local_rank) {
  const std::optional<std::string> visible = base.Get("CUDA_VISIBLE_DEVICES");
  if (!visible) return std::to_string(local_rank);
  std::string device(SplitAt(*visible, ',')[static_cast<size_t>(local_rank)]);
  std::erase(device, ' ');
  return device;
}

void SetElastic(const Attempt& attempt, const std::string& error_file, Environment& env) {
  const Options& options = attempt.plan.options;
  env.Set("TORCHELASTIC_RESTART_COUNT", std::to_string(attempt.membership.restart_count));
  env.Set("TORCHELASTIC_MAX_RESTARTS", std::to_string(options.rdzv.rules.max_restarts));
  env.Set("TORCHELASTIC_RUN_ID", options.rdzv.run_id);
  env.Set("TORCHELASTIC_USE_AGENT_STORE", "True");
  env.Set("TORCHELASTIC_ERROR_FILE", error_file);
  env.Set("TORCHELASTIC_SIGNALS_TO_HANDLE", options.signals_text);
}

}  // namespace

WorkerSpec MakeWorkerSpec(const Attempt& attempt, int local_rank) {
  const AgentPlan& plan = attempt.plan;
  const Environment& base = plan.env;
  const std::vector<std::string>& argv = plan.target.argv;
  WorkerSpec spec;
  spec.rank = attempt.membership.base_rank + local_rank;
  spec.local_rank = local_rank;
  if (!attempt.error_folder.empty()) {
    spec.error_file = attempt.error_folder + "/" + std::to_string(local_rank) + "/error.json";
  }
  for (size_t i = 0; i < argv.size(); ++i) {
    // Keeps the program's name unchanged.
    spec.argv.push_back(i == 0 ? argv[i] : SubstituteLocalRank(argv[i], local_rank));
  }

  spec.env = base;
  SetRanks(attempt, local_rank, spec.env);
  spec.env.Set("MASTER_ADDR", attempt.membership.master_addr);
  spec.env.Set("MASTER_PORT", std::to_string(attempt.membership.master_port));
  SetElastic(attempt, spec.error_file, spec.env);
  if (plan.target.is_trainer_config) SetForTrainer(attempt, spec.env);
  if (plan.options.virtual_local_rank) {
    spec.env.Set("CUDA_VISIBLE_DEVICES", OwnDevice(base, local_rank));
  }
  ShareCores(attempt.usable_cores, plan.local_world_size(), spec.env);
  // Python then prints the stacks of all threads if it crashes, or if ddprun ends it as hung.
  for (const char* name : {"PYTHONFAULTHANDLER", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}) {
    if (!base.Get(name)) spec.env.Set(name, "1");
  }
  spec.env.Set("DDPRUN_JOB_ID", plan.job_id);
  // Time of the steady clock, because a limit of time holds for the whole job with its restarts.
  spec.env.Set("DDPRUN_JOB_BEGAN_NS", std::to_string(plan.job_began.time_since_epoch().count()));
  spec.env.Set("DDPRUN_NODE_MEMORY_FD", std::to_string(attempt.node_memory_fd));
  spec.env.Set(kFlightRecorderVariable, std::to_string(attempt.flight_recorder_fd));
  spec.inherited_fds = {attempt.node_memory_fd, attempt.flight_recorder_fd};
  if (!plan.cpus.empty()) {
    spec.cpus = plan.cpus[static_cast<size_t>(local_rank)];
    // Workers that a template forks read this and bind themselves.
    spec.env.Set("DDPRUN_CPUS", FormatCpuList(spec.cpus));
  }
  return spec;
}

void ShareCores(int cores, int workers, Environment& env) {
  if (env.Get("OMP_NUM_THREADS")) return;
  env.Set("OMP_NUM_THREADS", std::to_string(std::max(1, cores / workers)));
}

Status CheckVirtualLocalRank(const Environment& base, int local_world_size) {
  const std::optional<std::string> visible = base.Get("CUDA_VISIBLE_DEVICES");
  if (!visible) return {};
  const size_t count = SplitAt(*visible, ',').size();
  if (static_cast<size_t>(local_world_size) <= count) return {};
  return Error{.code = Code::kUsage,
               .title = "TOO FEW GPUS",
               .where = "--virtual_local_rank",
               .what = "CUDA_VISIBLE_DEVICES is \"" + *visible + "\", which names " +
                       CountText(std::ssize(SplitAt(*visible, ',')), "GPU") + " for " +
                       CountText(local_world_size, "worker") +
                       "; with --virtual_local_rank each needs its own.",
               .hint = "Start fewer workers, or name more GPUs.",
               .page = "no-gpu"};
}

std::string SubstituteLocalRank(std::string_view text, int local_rank) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      result += text[i];
      continue;
    }
    const std::string_view rest = text.substr(i + 1);
    if (const size_t length = LocalRankLength(rest); length > 0) {
      result += std::to_string(local_rank);
      i += length;
    } else {
      result += '$';
      if (rest.starts_with("$") && LocalRankLength(rest.substr(1)) > 0) {
        result += rest.substr(1, LocalRankLength(rest.substr(1)));
        i += 1 + LocalRankLength(rest.substr(1));
      }
    }
  }
  return result;
}

}  // namespace ddprun::launcher

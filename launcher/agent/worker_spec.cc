#include "launcher/agent/worker_spec.h"

#include <algorithm>

namespace ddprun::launcher {

namespace {

constexpr std::string_view kLocalRank = "local_rank";

bool IsIdentifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// How much of `text`, which follows a '$', names the local rank: "{local_rank}", or "local_rank"
// not followed by more of an identifier; 0 when it does not.
size_t LocalRankLength(std::string_view text) {
  if (text.starts_with("{local_rank}")) return kLocalRank.size() + 2;
  const bool bare = text.starts_with(kLocalRank) &&
                    (text.size() == kLocalRank.size() || !IsIdentifier(text[kLocalRank.size()]));
  return bare ? kLocalRank.size() : 0;
}

// Threads of a worker's linear algebra: the cores shared evenly. torchrun says 1 for all, which
// leaves cores idle, and leaves a single worker alone, which then ignores cgroup limits.
std::string ThreadsPerWorker(const Attempt& attempt) {
  return std::to_string(std::max(1, attempt.usable_cores / attempt.local_world_size));
}

void SetRanks(const Attempt& attempt, int local_rank, Environment& env) {
  const rendezvous::Membership& node = attempt.membership;
  env.Set("RANK", std::to_string(node.base_rank + local_rank));
  env.Set("WORLD_SIZE", std::to_string(node.world_size));
  env.Set("LOCAL_RANK", std::to_string(local_rank));
  env.Set("LOCAL_WORLD_SIZE", std::to_string(attempt.local_world_size));
  env.Set("GROUP_RANK", std::to_string(node.node_rank));
  env.Set("GROUP_WORLD_SIZE", std::to_string(node.nnodes));
  env.Set("ROLE_RANK", std::to_string(node.role_base_rank + local_rank));
  env.Set("ROLE_WORLD_SIZE", std::to_string(node.role_world_size));
  env.Set("ROLE_NAME", "default");
}

}  // namespace

WorkerSpec MakeWorkerSpec(const Target& target,
                          const Attempt& attempt,
                          int local_rank,
                          const Environment& base) {
  WorkerSpec spec;
  spec.rank = attempt.membership.base_rank + local_rank;
  spec.local_rank = local_rank;
  spec.error_file = attempt.error_folder + "/" + std::to_string(local_rank) + "/error.json";
  for (size_t i = 0; i < target.argv.size(); ++i) {
    // The program's own name is never rewritten.
    spec.argv.push_back(i == 0 ? target.argv[i] : SubstituteLocalRank(target.argv[i], local_rank));
  }

  spec.env = base;
  SetRanks(attempt, local_rank, spec.env);
  spec.env.Set("MASTER_ADDR", attempt.membership.master_addr);
  spec.env.Set("MASTER_PORT", std::to_string(attempt.membership.master_port));
  spec.env.Set("TORCHELASTIC_RESTART_COUNT", "0");
  spec.env.Set("TORCHELASTIC_MAX_RESTARTS", "0");
  spec.env.Set("TORCHELASTIC_RUN_ID", attempt.run_id);
  spec.env.Set("TORCHELASTIC_USE_AGENT_STORE", "True");
  spec.env.Set("TORCHELASTIC_ERROR_FILE", spec.error_file);
  spec.env.Set("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  if (!base.Get("TORCH_NCCL_ASYNC_ERROR_HANDLING")) {
    spec.env.Set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  }
  if (!base.Get("OMP_NUM_THREADS")) spec.env.Set("OMP_NUM_THREADS", ThreadsPerWorker(attempt));
  spec.env.Set("DDPRUN_JOB_ID", attempt.job_id);
  spec.env.Set("DDPRUN_NODE_MEMORY_FD", std::to_string(attempt.node_memory_fd));
  return spec;
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

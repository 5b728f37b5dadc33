#include "launcher/agent/worker_spec.h"

#include "base/flight_recorder.h"
#include "launcher/agent/host_share.h"
#include "launcher/agent/local_rank_argument.h"
#include "launcher/agent/virtual_local_rank.h"
#include "launcher/agent/worker_defaults.h"
#include "launcher/cli/node_flags.h"

namespace ddprun::launcher {

namespace {

void SetRanks(const Attempt& attempt, int local_rank, Environment& env) {
  const rendezvous::Membership& node = attempt.membership;
  const Options& options = attempt.plan.options;
  env.Set("RANK", std::to_string(node.base_rank + local_rank));
  env.Set("WORLD_SIZE", std::to_string(node.world_size));
  env.Set("LOCAL_RANK", std::to_string(local_rank));
  env.Set("LOCAL_WORLD_SIZE", std::to_string(options.rdzv.local_world_size));
  env.Set("GROUP_RANK", std::to_string(node.node_rank));
  env.Set("GROUP_WORLD_SIZE", std::to_string(node.nnodes));
  env.Set("ROLE_RANK", std::to_string(node.role_base_rank + local_rank));
  env.Set("ROLE_WORLD_SIZE", std::to_string(node.role_world_size));
  env.Set("ROLE_NAME", options.rdzv.role);
  env.Set("MASTER_ADDR", node.master_addr);
  env.Set("MASTER_PORT", std::to_string(node.master_port));
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

// Sets the variables that torchrun does not have.
void SetOwn(const Attempt& attempt, Environment& env) {
  const AgentPlan& plan = attempt.plan;
  env.Set("DDPRUN_JOB_ID", plan.job_id);
  // Time of the steady clock, because a limit of time holds for the whole job with its restarts.
  env.Set("DDPRUN_JOB_BEGAN_NS", std::to_string(plan.job_began.time_since_epoch().count()));
  env.Set("DDPRUN_NODE_MEMORY_FD", std::to_string(attempt.node_memory_fd));
  env.Set(kFlightRecorderVariable, std::to_string(attempt.flight_recorder_fd));
  if (!plan.target.is_trainer_config) return;
  const std::chrono::duration<double> grace = plan.grace().usual();  // from SIGTERM to SIGKILL
  env.Set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", std::to_string(grace.count()));
  env.Set("DDPRUN_NODE_FLAGS", NodeFlagsText(plan.options));
  // Differs from the restart count if nodes came or went, which starts a round without a restart.
  env.Set("DDPRUN_ROUND", std::to_string(attempt.membership.round));
}

}  // namespace

WorkerSpec MakeWorkerSpec(const Attempt& attempt, int local_rank) {
  const AgentPlan& plan = attempt.plan;
  WorkerSpec spec{.rank = attempt.membership.base_rank + local_rank,
                  .local_rank = local_rank,
                  .argv = CommandOf(plan.target.argv, local_rank),
                  .env = plan.env,
                  .inherited_fds = {attempt.node_memory_fd, attempt.flight_recorder_fd}};
  if (!attempt.error_folder.empty()) {
    spec.error_file = attempt.error_folder + "/" + std::to_string(local_rank) + "/error.json";
  }
  SetRanks(attempt, local_rank, spec.env);
  SetElastic(attempt, spec.error_file, spec.env);
  SetOwn(attempt, spec.env);
  if (plan.options.virtual_local_rank) ShowOwnGpu(local_rank, spec.env);
  if (plan.options.host_share) SetHostShare(*plan.options.host_share, spec.env);
  SetWorkerDefaults(attempt, spec.env);
  if (!plan.cpus.empty()) {
    spec.cpus = plan.cpus[static_cast<size_t>(local_rank)];
    spec.env.Set("DDPRUN_CPUS", FormatCpuList(spec.cpus));  // forked workers bind themselves
  }
  return spec;
}

}  // namespace ddprun::launcher

#include "launcher/agent/agent_log.h"

#include <signal.h>
#include <unistd.h>

#include "launcher/process/process_exit.h"
#include "launcher/process/process_table.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

std::string LogName(std::optional<int> node_rank) {
  return node_rank ? "ddprun n" + std::to_string(*node_rank) : "ddprun";
}

LogOptions AgentLogOptions(const AgentPlan& plan) {
  const std::optional<int> node_rank = plan.options.rdzv.node_rank;
  return {.name = LogName(plan.options.backend->fixed ? node_rank.value_or(0) : node_rank),
          .level = plan.options.log_level,
          .time = plan.options.log_time};
}

void LogBegin(const AgentPlan& plan, const Log& log) {
  log.Debug("agent begins", {{"target", plan.target.name},
                             {"nproc_per_node", std::to_string(plan.local_world_size())},
                             {"host", plan.host},
                             {"pid", std::to_string(::getpid())},
                             {"job_id", plan.job_id}});
  if (CanListProcesses()) return;
  log.Warning(
      "/proc shows no processes: what workers start and leave behind is not found, and goes on");
}

void LogJoined(const AgentPlan& plan, const rendezvous::Membership& membership, const Log& log) {
  log.Debug("joined", {{"round", std::to_string(membership.round)},
                       {"restart_count", std::to_string(membership.restart_count)},
                       {"node_rank", std::to_string(membership.node_rank)},
                       {"nnodes", std::to_string(membership.nnodes)},
                       {"world_size", std::to_string(membership.world_size)},
                       {"master_addr", membership.master_addr},
                       {"master_port", std::to_string(membership.master_port)}});
  if (!plan.options.several_nodes()) return;
  log.Info(membership.stands_in ? "takes the place of the lost node" : "all nodes joined",
           {{"nnodes", std::to_string(membership.nnodes)},
            {"world_size", std::to_string(membership.world_size)}});
}

void LogStopSignal(
    const AgentPlan& plan, int signal, pid_t sender, bool running, bool saves, const Log& log) {
  const std::string from = sender > 0 ? " from pid " + std::to_string(sender) : "";
  const std::string ending = saves ? ", the workers save and end" : ", stopping the workers";
  const bool by_scheduler = plan.env.Get("SLURM_JOB_ID") && signal != SIGINT;  // StopSignalPolicy
  const std::string haste = by_scheduler ? "" : "; a second one ends them at once";
  log.Info("got " + SignalName(signal) + from + (running ? ending + haste : ", leaving"));
}

}  // namespace ddprun::launcher

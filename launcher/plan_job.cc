#include "launcher/plan_job.h"

#include <utility>

#include "base/terminal.h"
#include "launcher/agent/virtual_local_rank.h"
#include "launcher/cli/device_count.h"
#include "launcher/cli/network_interface.h"
#include "launcher/cli/numa_binding.h"
#include "launcher/cli/target.h"
#include "launcher/doctor/health.h"
#include "launcher/process/job.h"
#include "launcher/report/report_file.h"
#include "rendezvous/net/address.h"
#include "rendezvous/secure/token_gate.h"

namespace ddprun::launcher {

Result<AgentPlan> PlanJob(Options options, const Environment& env) {
  AgentPlan plan;
  plan.env = env;
  plan.host = rendezvous::HostName();
  // Workers do not get the token.
  DDPRUN_ASSIGN(options.rdzv.gate, rendezvous::TakeGate(plan.env));
  DDPRUN_ASSIGN(plan.target, ResolveTarget(options, env, ProgramFolder()));
  DDPRUN_ASSIGN(const int workers, CountWorkersHere(options.nproc_per_node, env));
  options.rdzv.local_world_size = workers;
  if (options.virtual_local_rank) DDPRUN_TRY(CheckVirtualLocalRank(env, workers));
  if (!options.numa_binding.empty()) {
    DDPRUN_ASSIGN(plan.cpus,
                  BindWorkers(options.numa_binding, workers, ReadCpuTopology(env, AllowedCpus())));
  }
  if (const std::string& wanted = options.network_interface; !wanted.empty()) {
    DDPRUN_ASSIGN(const rendezvous::OwnAddress own,
                  FindInterface(wanted, plan.host, rendezvous::ReadOwnAddresses()));
    if (options.rdzv.local_addr.empty()) options.rdzv.local_addr = own.address.to_string();
    UseInterface(own.interface, plan.env);
  }
  if (!options.report_file.empty()) {
    DDPRUN_TRY(CheckReportFile(ReportPath(options.report_file, options.rdzv.node_rank.value_or(0),
                                          plan.host, options.several_nodes())));
  }
  if (options.standalone) options.rdzv.run_id = MakeUuid();
  if (options.rdzv.rules.spares > 0) options.rdzv.find_fault = WatchHealth(env);
  plan.options = std::move(options);
  plan.job_id = MakeJobId(env);
  plan.job_began = std::chrono::steady_clock::now();
  plan.color = WantsColor(env);
  return plan;
}

}  // namespace ddprun::launcher

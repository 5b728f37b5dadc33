// The lines that an agent logs about a job.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/log.h"
#include "launcher/agent/agent_plan.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Returns the name for log lines, with the node's rank if it is known.
std::string LogName(std::optional<int> node_rank);
// Returns the options of the agent's log, before it has joined.
LogOptions AgentLogOptions(const AgentPlan& plan);

// Logs the job's plan. Warns if processes that workers leave behind cannot be found.
void LogBegin(const AgentPlan& plan, const Log& log);
// Logs the node's place in the job.
void LogJoined(const AgentPlan& plan, const rendezvous::Membership& membership, const Log& log);
// Logs what follows a stop signal. `sender` is a pid; 0 means unknown. `running`: there are
// workers. `saves`: they save before they end.
void LogStopSignal(
    const AgentPlan& plan, int signal, pid_t sender, bool running, bool saves, const Log& log);

}  // namespace ddprun::launcher

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
LogOptions AgentLogOptions(const AgentPlan& plan);

void LogBegin(const AgentPlan& plan, const Log& log);
void LogJoined(const AgentPlan& plan, const rendezvous::Membership& membership, const Log& log);
// `sender` is a pid; 0 means unknown. `running`: there are workers. `saves`: they save first.
void LogStopSignal(
    const AgentPlan& plan, int signal, pid_t sender, bool running, bool saves, const Log& log);

}  // namespace ddprun::launcher

// An agent among the real things: this process, its children, the network and the passing time.
#pragma once

#include "launcher/agent/agent_plan.h"
#include "launcher/process/guard.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

// The whole job on this node; ddprun's exit code. No process of the job is left when it returns,
// and everything has been said on standard error. Call it on the main thread.
Result<int> RunAgent(AgentPlan plan, const SignalMask& mask, Guard& guard);

}  // namespace ddprun::launcher

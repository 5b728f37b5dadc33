// Makes the plan of a job from its options, and checks everything that can refuse the job.
#pragma once

#include "base/env.h"
#include "base/result.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

// Returns the plan of this node's agent without its job folder. Starts no process.
Result<AgentPlan> PlanJob(Options options, const Environment& env);

}  // namespace ddprun::launcher

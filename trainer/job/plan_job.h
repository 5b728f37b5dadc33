// How ranks go through the data of a job, and what its user should know about it.
#pragma once

#include <string>
#include <vector>

#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"

namespace ddprun::trainer {

// How `world_size` ranks train the job. Throws Failure where they cannot: its strategy is for one,
// or there is not data for each.
StepPlan PlanFor(const Job& job, int world_size);

// Keys of the config that such a run will not feel, a line each.
std::vector<std::string> WarningsOf(const Job& job, const StepPlan& plan);

// The rank's share of the training samples. The options refer to `job`.
DistributedSamplerOptions TrainSamplerOptions(const Job& job, const LogicalRank& rank);

}  // namespace ddprun::trainer

// Plans how ranks go through the data of a job, and warns its user.
#pragma once

#include <string>
#include <vector>

#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"

namespace ddprun::trainer {

// Returns how `world_size` ranks train the job. Throws Failure if the strategy does not fit this
// number of ranks, or if there is not enough data.
StepPlan PlanFor(const Job& job, int world_size);

// Returns a line for each problem that the user should know, such as a key without effect.
std::vector<std::string> WarningsOf(const Job& job, const StepPlan& plan);

// Returns whether batches with equally many training samples count equally much in the mean loss.
bool BatchesWeighAlike(const Job& job);

// Returns the rank's share of the training samples. The options refer to `job`.
DistributedSamplerOptions TrainSamplerOptions(const Job& job, const LogicalRank& rank);

}  // namespace ddprun::trainer

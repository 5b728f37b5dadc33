// From section "data" of a config to data sets, and how a rank goes through them.
#pragma once

#include "trainer/data/loader.h"
#include "trainer/data/sampler.h"
#include "trainer/loop/job.h"

namespace ddprun::trainer {

// Fills job.train, job.validation and what belongs to them.
void OpenData(Job& job, const Attempt& attempt);

// The rank's share of the training samples. The options refer to `job`.
DistributedSamplerOptions TrainSamplerOptions(const Job& job, const LogicalRank& rank);

LoaderOptions TrainLoaderOptions(const Config& config, int64_t epoch);
LoaderOptions ValidationLoaderOptions(const Config& config);

}  // namespace ddprun::trainer

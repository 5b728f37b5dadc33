// How a run goes through its data: the one count of batches and steps. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "trainer/config/config.h"
#include "trainer/data/sampler.h"

namespace ddprun::trainer {

struct StepPlan {
  int64_t data_ranks = 1;         // that share out the samples
  int64_t samples_per_rank = 0;   // each one's share of an epoch, with padding
  int64_t batches_per_epoch = 0;  // of each rank
  int64_t steps_per_epoch = 0;    // the last may have fewer micro-batches than the others
  int64_t total_steps = 0;        // optimizer steps of the run
  int64_t step_samples = 0;       // of a full step, over all ranks
};

// The plan of every rank for `samples` training samples. An error where the data is not enough for
// a single step of all ranks.
Result<StepPlan> PlanSteps(const Config& config, int64_t samples, int64_t data_ranks);

// How the training samples are shared out; of rank 0 and without lengths.
DistributedSamplerOptions ShareOptions(const Config& config, int64_t samples, int64_t data_ranks);

}  // namespace ddprun::trainer

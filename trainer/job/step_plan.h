// How a run goes through its data: the one count of batches and steps. Pure.
#pragma once

#include <cstdint>

#include <ddprun/sampler.h>
#include "base/mix_seeds.h"
#include "base/result.h"
#include "trainer/config/config.h"
#include "trainer/parallel/rank_tree.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Samples and random numbers belong to logical ranks, whatever process computes them.
struct LogicalRank {
  int64_t index = 0;
  int64_t count = 1;
};

// A process is one of them, or has its share of training.virtual_ranks.
inline RankShare LogicalRanksOf(const Config& config, int process, int processes) {
  const int64_t count =
      config.training.virtual_ranks > 0 ? config.training.virtual_ranks : processes;
  return {.own = RanksOfProcess(count, process, processes), .count = count};
}

inline LogicalRank LogicalRankAt(const RankShare& share, int64_t i) {
  return {.index = share.own.begin + i, .count = share.count};
}

// For SumOverRanks(): sums belong to virtual ranks, or to each process as a whole.
inline RankShare SummedRanks(const Config& config, const RankShare& ranks) {
  return config.training.virtual_ranks > 0 ? ranks : RankShare();
}

// For what is random in a micro-batch: it depends on nothing that went before.
inline uint64_t MicroBatchSeed(const Config& config,
                               const LogicalRank& rank,
                               int64_t step,
                               size_t micro_batch) {
  return MixSeeds({static_cast<uint64_t>(config.run.seed), static_cast<uint64_t>(rank.index),
                   static_cast<uint64_t>(step), micro_batch});
}

struct StepPlan {
  int64_t data_ranks = 1;         // logical ones, that share out the samples
  int64_t samples_per_rank = 0;   // each one's share of an epoch, with padding
  int64_t batches_per_epoch = 0;  // of each rank
  int64_t steps_per_epoch = 0;    // the last may have fewer micro-batches than the others
  int64_t total_steps = 0;        // optimizer steps of the run
  int64_t step_samples = 0;       // of a full step, over all ranks
};

// The plan of every rank for `samples` training samples. An error where the data is not enough for
// a single step of all ranks.
Result<StepPlan> PlanSteps(const Config& config, int64_t samples, int64_t data_ranks);

// Whether something that is done `every` so often is due after `step`. It follows from the step
// alone, so that a run that was resumed does it where another one does. False for a time.
bool IsDue(const Interval& every, int64_t step, const StepPlan& plan);

// Names the position of a run in its data.
void VisitPosition(StateVisitor& visitor, SamplerState& position);

// The share of one in the training samples; without lengths.
DistributedSamplerOptions ShareOptions(const Config& config,
                                       int64_t samples,
                                       const LogicalRank& rank);

}  // namespace ddprun::trainer

// Counts the batches and steps in which a run goes through its data. Pure.
#pragma once

#include <cstdint>

#include <ddprun/sampler.h>
#include "base/mix_seeds.h"
#include "base/result.h"
#include "trainer/config/config.h"
#include "trainer/parallel/rank_tree.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Samples and random numbers belong to logical ranks, whichever process computes them.
struct LogicalRank {
  int64_t index = 0;
  int64_t count = 1;
};

// Returns the logical ranks of a process: one, or its share of training.virtual_ranks.
inline RankShare LogicalRanksOf(const Config& config, int process, int processes) {
  const int64_t count =
      config.training.virtual_ranks > 0 ? config.training.virtual_ranks : processes;
  return {.own = RanksOfProcess(count, process, processes), .count = count};
}

inline LogicalRank LogicalRankAt(const RankShare& share, int64_t i) {
  return {.index = share.own.begin + i, .count = share.count};
}

// Returns the argument of SumOverRanks(): sums belong to virtual ranks, or to whole processes.
inline RankShare SummedRanks(const Config& config, const RankShare& ranks) {
  return config.training.virtual_ranks > 0 ? ranks : RankShare();
}

// Returns the seed for a micro-batch. It does not depend on earlier micro-batches.
inline uint64_t MicroBatchSeed(const Config& config,
                               const LogicalRank& rank,
                               int64_t step,
                               size_t micro_batch) {
  return MixSeeds({static_cast<uint64_t>(config.run.seed), static_cast<uint64_t>(rank.index),
                   static_cast<uint64_t>(step), micro_batch});
}

struct StepPlan {
  int64_t data_ranks = 1;         // logical ranks that divide the samples
  int64_t samples_per_rank = 0;   // each rank's share of an epoch, with padding
  int64_t batches_per_epoch = 0;  // of each rank
  int64_t steps_per_epoch = 0;    // the last may have fewer micro-batches than the others
  int64_t total_steps = 0;        // optimizer steps of the run
  int64_t step_samples = 0;       // of a full step, over all ranks
};

// Returns the plan of every rank for `samples` training samples, or an error if the data is not
// enough for a single step of all ranks.
Result<StepPlan> PlanSteps(const Config& config, int64_t samples, int64_t data_ranks);

// Returns whether an action with the interval `every` is due after `step`; false for a time.
// Depends on the step alone, so that a resumed run acts after the same steps as any other run.
bool IsDue(const Interval& every, int64_t step, const StepPlan& plan);

// Names the position of a run in its data.
void VisitPosition(StateVisitor& visitor, SamplerState& position);

// Returns the position from which the ranks of this plan go on. If the saved steps took other
// samples, these ranks may not be able to share what is left: they go on from the last position
// before it from which they can. If the saved run had taken all samples of the epoch, the position
// is the end of the epoch with the padding of this plan.
SamplerState PositionFor(const StepPlan& plan, SamplerState saved);

// Returns the rank's share of the training samples, without lengths.
DistributedSamplerOptions ShareOptions(const Config& config,
                                       int64_t samples,
                                       const LogicalRank& rank);

}  // namespace ddprun::trainer

// Which part of the model one rank computes with, slices of layers, some of the stages, or all.
// Pure.
#pragma once

#include <optional>
#include <vector>

#include "trainer/config/parallel_dims.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

struct ModelPart {
  // Bytes.
  double parameters = 0;  // and buffers
  double largest = 0;     // of one parameter
  double block = 0;       // of one block's parameters, the largest
  double outside = 0;     // of parameters that belong to no block
  double shared = 0;      // of parameters that another pipeline stage has too
  // Of one micro-batch; nullopt where only the model's own code knows.
  std::optional<std::vector<StageMemory>> stages = {};
  // Micro-batches that are between their forward and their backward at the same time, at most.
  double in_flight = 1;
};

// Whether ranks that share out one replica's state see each other's memory: no rank of them has a
// copy of what another one keeps. `on_machine`: ranks of each machine; 0: all.
inline bool ShardsAreOnOneMachine(int shards, int on_machine) {
  return on_machine == 0 || on_machine % shards == 0;
}

// Into how many a pipeline splits each micro-batch of accumulation; 1 without one.
int64_t SplitOfMicroBatch(const Job& job, const ParallelDims& dims);

// Of a rank in that stage of the pipeline, 0 for the first.
ModelPart PartOf(const Job& job, const ParallelDims& dims, int pipeline_stage);

}  // namespace ddprun::trainer

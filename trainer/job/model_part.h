// Sizes of the part of the model that one rank has: slices of layers, some stages, or all. Pure.
#pragma once

#include <optional>
#include <vector>

#include "trainer/config/parallel_dims.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

struct ModelPart {
  // Bytes.
  double parameters = 0;  // and buffers
  double trained = 0;     // of trained parameters, also the next three
  double largest = 0;     // of one parameter
  double block = 0;       // of one block's parameters, the largest
  double outside = 0;     // of parameters that belong to no block
  double shared = 0;      // of parameters that another pipeline stage has too
  // The memory of one micro-batch; nullopt if only the model's own code knows it.
  std::optional<std::vector<StageMemory>> stages = {};
  // The largest number of micro-batches that are between forward and backward at the same time.
  double in_flight = 1;
};

// Returns whether the ranks that divide one replica's state read each other's memory, so that they
// need no copies. `on_machine` is the number of ranks per machine; 0: all.
inline bool ShardsAreOnOneMachine(int shards, int on_machine) {
  return on_machine == 0 || on_machine % shards == 0;
}

// Returns into how many parts a pipeline splits each micro-batch; 1 without a pipeline.
int64_t SplitOfMicroBatch(const Job& job, const ParallelDims& dims);

// Returns the part of a rank in a stage of the pipeline; the first stage is 0.
ModelPart PartOf(const Job& job, const ParallelDims& dims, int pipeline_stage);

}  // namespace ddprun::trainer

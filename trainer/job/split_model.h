// Decides which parts of a model go to which ranks: slices of each layer, or stages of a pipeline.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/parallel_dims.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

// Throws Failure (page "uneven-parts") if the layers of the job's model cannot be divided among
// `ranks`, because heads cannot be cut.
void CheckTensorParallel(const Job& job, int64_t ranks);

// Returns the first training sample, as a batch of its own.
Batch FirstSample(const Job& job);

// Returns how many parts (Model::Stages) each stage gets: as strategy.layers_per_stage says, or so
// that the stage with most to compute has as little as possible. If `model` has no values, stages
// cannot be balanced, and {} is returned. Throws Failure if the numbers do not fit the model.
std::vector<int64_t> PartsOfStages(const Job& job, const Model& model, int stages);

// Throws the Failure of PartsOfStages() for the job's shape.
void CheckStages(const Job& job, const ParallelDims& dims);

// Returns into how many micro-batches a batch of the loader is split.
int64_t PipelineMicroBatches(const Job& job, const ParallelDims& dims);

}  // namespace ddprun::trainer

// Which parts of a model go to which ranks: slices of each layer, or stages of a pipeline.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/parallel_dims.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

// Throws Failure (page "uneven-parts") where the job's model has not a part of each layer for every
// one of `ranks`: heads cannot be cut.
void CheckTensorParallel(const Job& job, int64_t ranks);

// Returns the first training sample, as a batch of its own.
Batch FirstSample(const Job& job);

// How many parts (Model::Stages) each of so many stages gets: as strategy.layers_per_stage says, or
// so that the stage with most to compute has as little as can be. `model` has values, whatever
// they are, or only a shape where nothing is to be balanced. Throws Failure for numbers that the
// model has not enough parts for.
std::vector<int64_t> PartsOfStages(const Job& job, const Model& model, int stages);

// Throws what PartsOfStages throws, from the job's shape.
void CheckStages(const Job& job, const ParallelDims& dims);

// How many micro-batches a batch of the loader is split into.
int64_t PipelineMicroBatches(const Job& job, const ParallelDims& dims);

}  // namespace ddprun::trainer

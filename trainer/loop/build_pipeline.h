// Which parts of a model go to which stage of a pipeline, and the making of it.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/loop/build_strategy.h"

namespace ddprun::trainer {

// How many parts (Model::Stages) each of so many stages gets: as strategy.layers_per_stage says, or
// so that the stage with most to compute has as little as can be. `model` has values, whatever
// they are, or only a shape where nothing is to be balanced. Throws Failure for numbers that the
// model has not enough parts for.
std::vector<int64_t> PartsOfStages(const Job& job, const Model& model, int stages);

// Throws what PartsOfStages throws, from the job's shape.
void CheckStages(const Job& job, const ParallelDims& dims);

// How many micro-batches a batch of the loader is split into.
int64_t PipelineMicroBatches(const Job& job, const ParallelDims& dims);

// `built`: on rank 0 the whole model on the CPU; the others need none. A collective.
BuiltStrategy BuildPipeline(const Job& job,
                            const ParallelDims& dims,
                            const Mesh& mesh,
                            FlightRecorder* recorder,
                            BuiltStrategy built);

}  // namespace ddprun::trainer

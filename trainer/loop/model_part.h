// Which part of the model one rank computes with, by the shape of the mesh: slices of layers, some
// of the stages, or all. Pure.
#pragma once

#include <optional>
#include <vector>

#include "trainer/loop/job.h"
#include "trainer/parallel/mesh.h"

namespace ddprun::trainer {

struct ModelPart {
  double parameters = 0;     // bytes; buffers too
  double largest = 0;        // of one parameter, bytes
  double largest_stage = 0;  // of one stage's parameters, bytes
  double shared = 0;         // parameters that another pipeline stage has too, bytes
  // Of one micro-batch; nullopt where only the model's own code knows.
  std::optional<std::vector<StageMemory>> stages = {};
  // Micro-batches that are between their forward and their backward at the same time, at most.
  double in_flight = 1;
};

// Into how many a pipeline splits each micro-batch of accumulation; 1 without one.
int64_t SplitOfMicroBatch(const Config& config, const MeshShape& mesh);

// Of a rank in that stage of the pipeline, 0 for the first.
ModelPart PartOf(const Job& job, const MeshShape& mesh, int pipeline_stage);

}  // namespace ddprun::trainer

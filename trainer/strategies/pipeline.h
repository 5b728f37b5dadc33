// Trains a model that is divided into stages: over the ranks of the mesh's pipeline axis, or over
// devices of one process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include <ddprun/optimizer.h>
#include "trainer/parallel/module_sync.h"
#include "trainer/parallel/pipeline_plan.h"
#include "trainer/parallel/sharded_update.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// One stage of a pipeline: the parts [begin, end) of Model::Stages.
struct PipelineStage {
  int index = 0;
  size_t begin = 0;
  size_t end = 0;
  c10::Device device = c10::kCPU;  // of its parameters
};

// A parameter that several stages use, such as tied embeddings.
struct SharedParameter {
  std::string name;
  at::Tensor tensor;        // this rank's copy
  std::vector<int> stages;  // stages that use it, including this rank's
};

// A rank's update of one group of parameters: those of its stage, or those that stages share.
struct PipelineUpdate {
  std::unique_ptr<Optimizer> optimizer = {};  // nullptr: no parameters
  // If not nullptr, the part of the parameters that this rank of the shard axis updates. The
  // optimizer has only this part.
  std::shared_ptr<ShardedUpdate> shards = {};
};

struct PipelineOptions {
  ScheduleActions schedule = &OneForwardOneBackwardActions;
  int stages = 1;                            // of the whole pipeline
  std::vector<PipelineStage> own;            // one if other ranks have the rest; else all, in order
  std::vector<SharedParameter> shared = {};  // with stages of other ranks
  ModuleSync::Options sync = {};             // if the data axis has several ranks
};

// Makes the strategy. `model` has the parameters of this rank's stages (Model::DropMetaModules), or
// parts of them under tensor parallelism. `own` updates the parameters that are not shared,
// `shared` the others. A collective.
//
// One thread issues the work of all stages of this rank in the order of the schedule; their devices
// work in parallel.
std::unique_ptr<Strategy> MakePipeline(std::shared_ptr<Model> model,
                                       PipelineUpdate own,
                                       PipelineUpdate shared,
                                       const Mesh& mesh,
                                       const PipelineOptions& options);

}  // namespace ddprun::trainer

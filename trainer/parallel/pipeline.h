// Training of a model whose parts are shared out: over the ranks of the mesh's pipeline axis, or
// over devices of one process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/parallel/pipeline_plan.h"
#include "trainer/parallel/strategy.h"

namespace ddprun::trainer {

// Of the pipeline: [begin, end) of Model::Stages.
struct PipelineStage {
  int index = 0;
  size_t begin = 0;
  size_t end = 0;
  c10::Device device = c10::kCPU;  // of its parameters
};

// One that several stages use, as tied embeddings are.
struct SharedParameter {
  std::string name;
  at::Tensor tensor;        // this rank's copy
  std::vector<int> stages;  // that use it, this rank's among them
};

// Of the parameters that one stage has, or of those that several have.
struct PipelineUpdate {
  std::unique_ptr<Optimizer> optimizer = {};  // nullptr: there are none
  // Not nullptr: of what this rank of the shard axis updates, which the optimizer has.
  std::shared_ptr<ShardedUpdate> shards = {};
};

struct PipelineOptions {
  ScheduleActions schedule = &OneForwardOneBackwardActions;
  int stages = 1;                  // of the whole pipeline
  std::vector<PipelineStage> own;  // one where ranks have the others, otherwise all, in order
  std::vector<SharedParameter> shared = {};  // with stages of other ranks
  ModuleSync::Options sync = {};             // with several ranks along the data axis
};

// `model` has the parameters of the own stages (Model::ForgetMeta), or, where ranks share out
// layers, parts of them. `own`: of those that are not shared, `shared` of the others. A collective.
//
// One thread issues the work of all own stages in the order of the schedule; devices do it beside
// each other.
std::unique_ptr<Strategy> MakePipeline(std::shared_ptr<Model> model,
                                       PipelineUpdate own,
                                       PipelineUpdate shared,
                                       const Mesh& mesh,
                                       const PipelineOptions& options);

}  // namespace ddprun::trainer

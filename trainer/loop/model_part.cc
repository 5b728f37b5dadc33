#include "trainer/loop/model_part.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace ddprun::trainer {

namespace {

using Stages = std::vector<StageMemory>;

double WholeBytes(const Job& job) {
  if (job.shape != nullptr) return static_cast<double>(StateBytes(*job.shape));
  const auto* script = std::get_if<TorchScriptOptions>(&job.model);
  if (script == nullptr) return 0;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(script->path, error);
  return error ? 0 : static_cast<double>(bytes);
}

std::optional<Stages> StagesOf(const Job& job, const BatchSize& batch) {
  if (job.shape == nullptr) return std::nullopt;
  std::optional<Stages> stages = MemoryOfStages(job.model, *job.shape, batch);
  if (stages && job.config.training.gradient_checkpointing) return WithRecomputedBlocks(*stages);
  return stages;
}

double ParametersOf(const Stages& stages) {
  return std::accumulate(stages.begin(), stages.end(), 0.0, [](double sum, const StageMemory& one) {
    return sum + one.gradients;
  });
}

// What each costs to compute, about: an embedding looks things up.
std::vector<double> CostsOf(const Job& job, const Stages& all) {
  std::vector<double> costs;
  for (const StageMemory& stage : all) costs.push_back(stage.gradients);
  if (TransformerIn(job.model) != nullptr) costs.front() = 0;
  return costs;
}

// Those of one stage of the pipeline, of stages of about the same cost.
Stages StagesOfPart(const Job& job, const Stages& all, const MeshShape& mesh, int pipeline_stage) {
  const std::vector<double> costs = CostsOf(job, all);
  const double whole = std::accumulate(costs.begin(), costs.end(), 0.0);
  Stages own;
  double before = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double middle = (before + costs[i] / 2) / whole * mesh.pipeline;
    const int part = std::min(static_cast<int>(middle), mesh.pipeline - 1);
    if (part == pipeline_stage) own.push_back(all[i]);
    before += costs[i];
  }
  return own;
}

}  // namespace

int64_t SplitOfMicroBatch(const Config& config, const MeshShape& mesh) {
  if (mesh.pipeline == 1) return 1;
  const int64_t accumulated = config.training.gradient_accumulation_steps;
  const int64_t asked = config.strategy.pipeline_micro_batches;
  const int64_t split = asked > 0 ? asked : (2 * mesh.pipeline + accumulated - 1) / accumulated;
  return std::min(split, config.training.per_device_train_batch_size);
}

ModelPart PartOf(const Job& job, const MeshShape& mesh, int pipeline_stage) {
  ModelPart part{.parameters = WholeBytes(job)};
  BatchSize batch = job.largest_batch;
  part.stages = StagesOf(job, batch);
  part.largest = part.largest_stage = part.parameters;
  if (!part.stages) return part;
  // Norms, biases and positions: no stage lists them.
  const double unlisted = std::max(0.0, part.parameters - ParametersOf(*part.stages));
  const int64_t split = SplitOfMicroBatch(job.config, mesh);
  batch.samples = (batch.samples + split - 1) / split;
  batch.tokens /= static_cast<double>(split);
  batch.tensor_ranks = mesh.tensor;
  const Stages all = *StagesOf(job, batch);
  part.stages = mesh.pipeline == 1 ? all : StagesOfPart(job, all, mesh, pipeline_stage);
  part.parameters = ParametersOf(*part.stages) + unlisted / mesh.pipeline;
  // A tied output layer is the first stage's embedding and the last stage's head.
  const bool first = pipeline_stage == 0;
  const bool last = pipeline_stage + 1 == mesh.pipeline;
  if (first != last) part.shared = all.back().held;
  if (first && !last) part.parameters += part.shared;
  part.largest = part.largest_stage = 0;
  for (const StageMemory& stage : *part.stages) {
    part.largest = std::max(part.largest, stage.largest_gradient);
    part.largest_stage = std::max(part.largest_stage, stage.gradients);
  }
  if (mesh.pipeline > 1) {
    const bool all_forward = job.config.strategy.pipeline_schedule == PipelineSchedule::kGpipe;
    const auto count =
        static_cast<double>(split * job.config.training.gradient_accumulation_steps);
    part.in_flight = all_forward ? count : std::min<double>(count, mesh.pipeline - pipeline_stage);
  }
  return part;
}

}  // namespace ddprun::trainer

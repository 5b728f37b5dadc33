#include "trainer/job/model_part.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "trainer/job/split_model.h"
#include "trainer/models/lora.h"
#include "trainer/parallel/pipeline_plan.h"

namespace ddprun::trainer {

namespace {

using Stages = std::vector<StageMemory>;
using Counts = std::vector<int64_t>;

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
  return std::accumulate(stages.begin(), stages.end(), 0.0,
                         [](double sum, const StageMemory& one) { return sum + one.gradients; });
}

// Returns about what each stage costs to compute. An embedding costs nothing: it only looks up.
std::vector<double> CostsOf(const Job& job, const Stages& all) {
  std::vector<double> costs;
  for (const StageMemory& stage : all) costs.push_back(stage.gradients);
  if (TransformerIn(job.model) != nullptr) costs.front() = 0;
  return costs;
}

bool BeginsBlock(const StageMemory& stage) {
  return stage.input > 0 && !stage.continues_block;
}

// Converts strategy.layers_per_stage to numbers of entries of `all`, which has several entries for
// a block and none for norms. Returns {} if the key does not fit.
Counts GivenCounts(Counts given, const Stages& all) {
  const int64_t sum = std::accumulate(given.begin(), given.end(), int64_t{0});
  const int64_t blocks = std::ranges::count_if(all, &BeginsBlock);
  if (given.empty() || blocks == 0) return std::cmp_equal(sum, all.size()) ? given : Counts();
  if (sum > blocks) {  // the key also counts the embedding and the parts behind the blocks
    given.front() -= 1;
    given.back() -= sum - blocks - 1;
  }
  Counts counts(given.size());
  size_t at = 0;
  int64_t begun = 0;
  for (const StageMemory& stage : all) {
    if (BeginsBlock(stage) && ++begun > given[at] && at + 1 < given.size()) {
      ++at;
      begun = 1;
    }
    ++counts[at];
  }
  return counts;
}

// Returns the entries of one stage of the pipeline.
Stages StagesOfPart(const Job& job, const Stages& all, int pipeline_stages, int pipeline_stage) {
  if (std::cmp_less(all.size(), pipeline_stages)) return all;
  Counts counts = GivenCounts(job.config.strategy.layers_per_stage, all);
  if (std::cmp_not_equal(counts.size(), pipeline_stages)) {
    counts = BalancedSplit(CostsOf(job, all), pipeline_stages);
  }
  const auto first =
      all.begin() + std::accumulate(counts.begin(), counts.begin() + pipeline_stage, int64_t{0});
  return {first, first + counts[static_cast<size_t>(pipeline_stage)]};
}

// Frozen parameters have no gradients, and ranks do not divide them.
void LeaveOutFrozen(double trained, ModelPart& part) {
  part.trained = trained * part.parameters;
  for (double* bytes : {&part.largest, &part.block, &part.outside}) *bytes *= trained;
  for (StageMemory& stage : *part.stages) {
    for (double* bytes : {&stage.gradients, &stage.largest_gradient, &stage.held}) {
      *bytes *= trained;
    }
  }
}

}  // namespace

int64_t SplitOfMicroBatch(const Job& job, const ParallelDims& dims) {
  if (dims.stages == 1) return 1;
  return std::min(PipelineMicroBatches(job, dims), job.config.training.per_device_train_batch_size);
}

ModelPart PartOf(const Job& job, const ParallelDims& dims, int pipeline_stage) {
  ModelPart part{.parameters = WholeBytes(job)};
  BatchSize batch = job.largest_batch;
  part.stages = StagesOf(job, batch);
  part.trained = part.largest = part.outside = part.parameters;
  if (!part.stages) return part;
  // No stage lists norms, biases and positions.
  const double unlisted = std::max(0.0, part.parameters - ParametersOf(*part.stages));
  // One process has all stages, which keep about as much as for a whole batch.
  const int64_t split = dims.pipeline == 1 ? 1 : SplitOfMicroBatch(job, dims);
  batch.samples = (batch.samples + split - 1) / split;
  batch.tokens /= static_cast<double>(split);
  batch.tensor_ranks = dims.tensor;
  const Stages all = *StagesOf(job, batch);
  part.stages = dims.pipeline == 1 ? all : StagesOfPart(job, all, dims.pipeline, pipeline_stage);
  part.parameters = ParametersOf(*part.stages) + unlisted / dims.pipeline;
  // A tied output layer is the first stage's embedding and the last stage's head.
  const bool first = pipeline_stage == 0;
  const bool last = pipeline_stage + 1 == dims.pipeline;
  if (first != last) part.shared = all.back().held;
  if (first && !last) part.parameters += part.shared;
  part.largest = 0;
  part.outside = part.parameters;
  for (const StageMemory& stage : *part.stages) {
    part.largest = std::max(part.largest, stage.largest_gradient);
    if (stage.input == 0 && !stage.continues_block) continue;
    part.block = std::max(part.block, stage.gradients);
    part.outside -= stage.gradients;
  }
  if (dims.pipeline > 1) {
    const bool all_forward = job.config.strategy.pipeline_schedule == PipelineSchedule::kGpipe;
    const auto count = static_cast<double>(split * job.config.training.gradient_accumulation_steps);
    part.in_flight = all_forward ? count : std::min<double>(count, dims.pipeline - pipeline_stage);
  }
  LeaveOutFrozen(static_cast<double>(TrainedCount(*job.shape)) /
                     static_cast<double>(ParameterCount(*job.shape)),
                 part);
  return part;
}

}  // namespace ddprun::trainer

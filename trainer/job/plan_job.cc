#include "trainer/job/plan_job.h"

#include "base/failure.h"
#include "trainer/config/config_warnings.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/job/estimate_memory.h"
#include "trainer/job/split_model.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

StepPlan PlanFor(const Job& job, int world_size) {
  const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, world_size));
  const std::string there_are = ", but there are " + std::to_string(world_size) + " ranks";
  const auto refuse = [&](std::string what, std::string hint) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "TOO MANY RANKS",
                        .where = job.config_path,
                        .what = std::move(what),
                        .hint = std::move(hint),
                        .page = "too-many-ranks"});
  };
  const bool one_process = dims.replicas == Replicas::kNone || dims.replicas == Replicas::kDevices;
  if (one_process && dims.data > 1) {
    refuse("strategy.type is \"" + std::string(Word(job.config.strategy.type)) +
               "\", which is one process" + there_are + ".",
           "Start one (--nproc_per_node=1), or take strategy.type \"ddp\".");
  }
  if (!dims.devices.empty() && world_size > 1) {
    refuse("strategy.devices are those of one process" + there_are + ".",
           "Start one (--nproc_per_node=1), or remove the key.");
  }
  const int64_t virtual_ranks = job.config.training.virtual_ranks;
  if (virtual_ranks > 0 && world_size > virtual_ranks) {
    refuse("training.virtual_ranks is " + std::to_string(virtual_ranks) + there_are +
               ": one at least for each was expected.",
           "Start at most " + std::to_string(virtual_ranks) +
               " (--nproc_per_node), or raise training.virtual_ranks.");
  }
  CheckTensorParallel(job, dims.tensor);
  Result<StepPlan> plan =
      PlanSteps(job.config, job.train->size(), LogicalRanksOf(job.config, 0, dims.data).count);
  if (!plan.has_value()) plan.error().where = job.config_path;
  if (plan.has_value()) CheckStages(job, dims);
  return ValueOrThrow(std::move(plan));
}

namespace {

// Returns true also if bytes are tokens, because these need no tokenizer.
bool HasTokenizerForItsData(const Config& config) {
  if (config.data.format != DataFormat::kTokens || !config.data.tokenizer.empty()) return true;
  return config.model.vocab_size <= 256 || HasTokenizer(config.model.name_or_path);
}

}  // namespace

std::vector<std::string> WarningsOf(const Job& job, const StepPlan& plan) {
  std::vector<std::string> warnings =
      ConfigWarnings(job.config, {.ranks = plan.data_ranks,
                                  .samples_per_rank = plan.samples_per_rank,
                                  .batches_per_epoch = plan.batches_per_epoch,
                                  .steps_per_epoch = plan.steps_per_epoch,
                                  .total_steps = plan.total_steps,
                                  .classes = job.train->shape().classes,
                                  .has_validation_data = job.validation != nullptr});
  const bool writes_text = std::holds_alternative<GptOptions>(job.model) ||
                           std::holds_alternative<LlamaOptions>(job.model);
  if (writes_text && !HasTokenizerForItsData(job.config)) {
    warnings.push_back(
        "data.tokenizer is not given, and token files do not say which tokenizer made them: model/ "
        "will have none, and writing text with it takes --tokenizer.");
  }
  const std::string disk = DiskWarning(job);
  if (!disk.empty()) warnings.push_back(disk);
  return warnings;
}

bool BatchesWeighAlike(const Job& job) {
  return job.train->equal_predictions() && job.config.training.class_weights.empty();
}

DistributedSamplerOptions TrainSamplerOptions(const Job& job, const LogicalRank& rank) {
  DistributedSamplerOptions options = ShareOptions(job.config, job.train->size(), rank);
  options.lengths = job.train_lengths;
  return options;
}

}  // namespace ddprun::trainer

#include "trainer/loop/job.h"

#include "base/failure.h"
#include "trainer/config/config_warnings.h"
#include "trainer/config/read_config.h"
#include "trainer/loop/open_data.h"
#include "trainer/loop/open_model.h"
#include "trainer/models/torchscript.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

Job OpenJob(const std::string& config_path,
            const std::vector<std::string>& overrides,
            const Environment& environment) {
  Job job;
  job.config_path = config_path;
  job.config = ValueOrThrow(ReadConfig(config_path, overrides, environment));
  job.model = OpenModel(job.config);
  // Once for all ranks, which are forked later.
  if (job.config.model.type == ModelType::kPlugin) LoadPlugin(job.config.model.path).RequireModel();
  if (job.config.model.type == ModelType::kTorchScript) {
    job.model_notes = TorchScriptNotes(job.config.model.path);
  }
  OpenData(job);
  FitModelToData(job.train->shape(), job.model);
  return job;
}

StepPlan PlanFor(const Job& job, int world_size) {
  if (job.config.strategy.type == StrategyType::kSingle && world_size > 1) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "TOO MANY RANKS",
                        .where = job.config_path,
                        .what = "strategy.type is \"single\", but there are " +
                                std::to_string(world_size) + " ranks.",
                        .hint = "Start one (--nproc_per_node=1), or take strategy.type \"ddp\".",
                        .page = "too-many-ranks"});
  }
  Result<StepPlan> plan = PlanSteps(job.config, job.train->size(), world_size);
  if (!plan.has_value()) plan.error().where = job.config_path;
  return ValueOrThrow(std::move(plan));
}

std::vector<std::string> WarningsOf(const Job& job, const StepPlan& plan) {
  return ConfigWarnings(job.config, {.ranks = plan.data_ranks,
                                     .samples_per_rank = plan.samples_per_rank,
                                     .batches_per_epoch = plan.batches_per_epoch,
                                     .total_steps = plan.total_steps,
                                     .classes = job.train->shape().classes,
                                     .has_validation_data = job.validation != nullptr});
}

}  // namespace ddprun::trainer

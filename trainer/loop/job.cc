#include "trainer/loop/job.h"

#include "base/failure.h"
#include "trainer/config/read_config.h"
#include "trainer/loop/open_data.h"
#include "trainer/loop/open_model.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

namespace {

Error TooFewSamples(const Job& job, const std::string& what) {
  return Error{.code = Code::kUsage,
               .title = "TOO FEW SAMPLES",
               .where = job.config_path,
               .what = what,
               .hint =
                   "Give it more data, or fewer ranks (--nproc_per_node), or shorter samples "
                   "(data.max_seq_length).",
               .page = "too-few-samples"};
}

}  // namespace

Job OpenJob(const std::string& config_path,
            const std::vector<std::string>& overrides,
            const Environment& environment) {
  Job job;
  job.config_path = config_path;
  job.config = ValueOrThrow(ReadConfig(config_path, overrides, environment));
  job.model = OpenModel(job.config);
  // Once for all ranks, which are forked later.
  if (job.config.model.type == ModelType::kPlugin) LoadPlugin(job.config.model.path).RequireModel();
  OpenData(job);
  FitModelToData(job.train->shape(), job.model);
  return job;
}

void CheckWorldSize(const Job& job, int world_size) {
  if (job.config.strategy.type == StrategyType::kSingle && world_size > 1) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "TOO MANY RANKS",
                        .where = job.config_path,
                        .what = "strategy.type is \"single\", but there are " +
                                std::to_string(world_size) + " ranks.",
                        .hint = "Start one (--nproc_per_node=1), or take strategy.type \"ddp\".",
                        .page = "too-many-ranks"});
  }
  const int64_t samples = job.train->size();
  const std::string has = "The training data has " + std::to_string(samples) + " samples";
  if (samples < world_size) {
    throw Failure(TooFewSamples(
        job, has + ", but there are " + std::to_string(world_size) + " ranks: some get none."));
  }
  const int64_t batch = job.config.training.per_device_train_batch_size;
  const int64_t per_rank = (samples + world_size - 1) / world_size;
  if (job.config.data.dataloader_drop_last && per_rank < batch) {
    throw Failure(TooFewSamples(
        job, has + ", " + std::to_string(per_rank) + " for each rank: less than one batch of " +
                 std::to_string(batch) + ", and data.dataloader_drop_last drops it."));
  }
}

}  // namespace ddprun::trainer

#include "trainer/loop/build_zero.h"

#include "trainer/data/loader.h"
#include "trainer/loop/build_optimizer.h"
#include "trainer/loop/options_of.h"
#include "trainer/parallel/zero.h"

namespace ddprun::trainer {

std::unique_ptr<Strategy> BuildZero(const Job& job,
                                    const std::shared_ptr<Model>& model,
                                    const Mesh& mesh,
                                    FlightRecorder* recorder) {
  const Config& config = job.config;
  ZeroOptions options{.data_parallel = DataParallelOptionsOf(config.strategy)};
  options.data_parallel.sync.reducer.recorder = recorder;
  if (config.strategy.type == StrategyType::kZero2) options.stage = ZeroStage::kGradients;
  if (config.strategy.type == StrategyType::kZero3) {
    options.stage = ZeroStage::kParameters;
    // Blocks are the same for every batch; which there are, a model says for one of them.
    Loader one(*job.train, {0}, {.batch_size = 1, .prefetch = 0});
    options.blocks = BlocksOf(*model, one.Next().value());
  }
  const auto make_optimizer = [&](const std::vector<Shard>& shards) {
    return BuildOptimizer(config.optimizer, shards);
  };
  return MakeZero(model, make_optimizer, mesh, options);
}

}  // namespace ddprun::trainer

#include "trainer/strategies/kinds.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "trainer/data/loader.h"
#include "trainer/job/options_of.h"
#include "trainer/parallel/tensor_parallel.h"
#include "trainer/strategies/build_model.h"
#include "trainer/strategies/build_pipeline.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/one_process.h"
#include "trainer/strategies/single.h"
#include "trainer/strategies/strategy_options.h"
#include "trainer/strategies/zero.h"

namespace ddprun::trainer {

namespace {

// Returns this rank's part of the model, which `whole` is if ranks do not divide it.
std::shared_ptr<Model> OwnPart(const BuildInputs& in, std::shared_ptr<Model> whole) {
  if (!in.dims.in_parts()) return whole;
  std::shared_ptr<Model> part;
  {
    const SplitLayersScope axis(MakeTensorAxis(in.mesh.tensor));
    part = BuildModel(in.job, /*owns_weights=*/false, in.mesh.device);
  }
  HandOutModel(whole.get(), *part, in.mesh);
  return part;
}

BuiltStrategy BuildSingle(const BuildInputs& in, std::shared_ptr<Model> whole) {
  const std::shared_ptr<Model> model = OwnPart(in, std::move(whole));
  return {model, MakeSingle(model, OptimizerOf(in.job.config.optimizer, *model), in.mesh)};
}

BuiltStrategy BuildZero(const BuildInputs& in, std::shared_ptr<Model> whole) {
  const std::shared_ptr<Model> model = OwnPart(in, std::move(whole));
  const Config& config = in.job.config;
  ZeroOptions options{.data_parallel = DataParallelOptionsOf(config)};
  options.data_parallel.sync.reducer.recorder = in.recorder;
  options.data_parallel.sync.rejoins = in.joins;
  if (in.dims.replicas == Replicas::kShardGradients) options.stage = ZeroStage::kGradients;
  if (in.dims.replicas == Replicas::kShardParameters) {
    options.stage = ZeroStage::kParameters;
    // A model lists its blocks for a batch, but they are equal for every batch.
    Loader one(*in.job.train, {0}, {.batch_size = 1, .prefetch = 0});
    options.blocks = BlocksOf(*model, one.Next().value());
  }
  const auto make_optimizer = [&](const std::vector<Shard>& shards) {
    return BuildOptimizer(config.optimizer, shards);
  };
  return {model, MakeZero(model, make_optimizer, in.mesh, options)};
}

BuiltStrategy BuildOneProcess(const BuildInputs& in, std::shared_ptr<Model> whole) {
  const StrategyConfig& config = in.job.config.strategy;
  const auto make_replica = [&in](c10::Device device) {
    return BuildModel(in.job, /*owns_weights=*/false, device);
  };
  return {whole, MakeDataParallel(whole, OptimizerOf(in.job.config.optimizer, *whole), make_replica,
                                  {.devices = DevicesOf(config),
                                   .output_device = static_cast<size_t>(config.output_device),
                                   .loss = config.loss})};
}

BuiltStrategy BuildDdp(const BuildInputs& in, std::shared_ptr<Model> whole) {
  const std::shared_ptr<Model> model = OwnPart(in, std::move(whole));
  DataParallelOptions options = DataParallelOptionsOf(in.job.config);
  options.virtual_ranks = in.job.config.training.virtual_ranks;
  options.sync.reducer.recorder = in.recorder;
  options.sync.rejoins = in.joins;
  return {model, MakeDistributedDataParallel(model, OptimizerOf(in.job.config.optimizer, *model),
                                             in.mesh, options)};
}

constexpr StrategyKind kKinds[] = {
    {[](const ParallelDims& dims) { return dims.in_stages; }, &BuildPipeline},
    {[](const ParallelDims& dims) { return dims.replicas == Replicas::kNone; }, &BuildSingle},
    {[](const ParallelDims& dims) { return dims.shares_state(); }, &BuildZero},
    {[](const ParallelDims& dims) { return dims.replicas == Replicas::kDevices; },
     &BuildOneProcess},
    {[](const ParallelDims& dims) { return dims.replicas == Replicas::kAverage; }, &BuildDdp},
};

}  // namespace

std::span<const StrategyKind> StrategyKinds() {
  return kKinds;
}

BuiltStrategy BuildStrategy(const BuildInputs& in, std::span<const StrategyKind> kinds) {
  const auto kind =
      std::ranges::find_if(kinds, [&](const StrategyKind& one) { return one.fits(in.dims); });
  DDPRUN_CHECK(kind != kinds.end());
  // Rank 0 draws or reads the weights; the others receive them.
  const bool owns_weights = in.mesh.world.rank == 0 && !in.joins;
  const bool in_parts = in.dims.in_parts();
  std::shared_ptr<Model> whole;
  std::vector<std::string> fresh;
  if (owns_weights || !in_parts) {
    whole = BuildModel(in.job, owns_weights, in_parts ? at::kCPU : in.mesh.device, &fresh);
  }
  BuiltStrategy built = kind->build(in, std::move(whole));
  built.notes.fresh_parameters = std::move(fresh);
  return built;
}

}  // namespace ddprun::trainer

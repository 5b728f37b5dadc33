#include "trainer/loop/build_strategy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/failure.h"
#include "trainer/compute/device.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/data/loader.h"
#include "trainer/loop/build_pipeline.h"
#include "trainer/loop/options_of.h"
#include "trainer/models/pretrained.h"
#include "trainer/parallel/data_parallel.h"
#include "trainer/parallel/strategy_parts.h"
#include "trainer/parallel/tensor_parallel.h"
#include "trainer/parallel/whole_state.h"
#include "trainer/parallel/zero.h"

namespace ddprun::trainer {

namespace {

std::shared_ptr<Model> BuildModel(const Job& job,
                                  bool owns_weights,
                                  c10::Device device,
                                  std::vector<std::string>* fresh_parameters) {
  const Config& config = job.config;
  const bool pretrained = !config.model.name_or_path.empty();
  SeedGenerators(device, static_cast<uint64_t>(config.run.seed));
  std::shared_ptr<Model> model =
      MakeModel(job.model, {config.training.loss, config.training.label_smoothing},
                /*initialize=*/owns_weights && !pretrained, device);
  if (config.training.gradient_checkpointing) RecomputeBlocks(*model);
  if (owns_weights && pretrained)
    *fresh_parameters = LoadWeights(*model, config.model.name_or_path);
  return model;
}

// What this rank of the tensor axis has of the model; `whole` is rank 0's.
std::shared_ptr<Model> OwnPart(const Job& job, const Model* whole, const Mesh& mesh) {
  std::shared_ptr<Model> part;
  {
    const SplitLayersScope axis(MakeTensorAxis(mesh.tensor));
    std::vector<std::string> fresh;
    part = BuildModel(job, /*owns_weights=*/false, mesh.device, &fresh);
  }
  HandOutModel(whole, *part, mesh);
  return part;
}

std::vector<Shard> TrainedOf(const Model& model) {
  std::vector<Shard> trained;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    trained.push_back({item.key(), item.value(), model.PlacementOf(item.key())});
  }
  return trained;
}

std::unique_ptr<Strategy> BuildDataParallel(const Job& job,
                                            const std::shared_ptr<Model>& model,
                                            std::unique_ptr<Optimizer> optimizer) {
  const StrategyConfig& config = job.config.strategy;
  const auto make_replica = [&job](c10::Device device) {
    std::vector<std::string> fresh;
    return BuildModel(job, /*owns_weights=*/false, device, &fresh);
  };
  return MakeDataParallel(model, std::move(optimizer), make_replica,
                          {.devices = DevicesOf(config),
                           .output_device = static_cast<size_t>(config.output_device),
                           .loss = config.loss});
}

std::unique_ptr<Strategy> BuildZero(const Job& job,
                                    const std::shared_ptr<Model>& model,
                                    const Mesh& mesh,
                                    Replicas replicas,
                                    FlightRecorder* recorder) {
  const Config& config = job.config;
  ZeroOptions options{.data_parallel = DataParallelOptionsOf(config)};
  options.data_parallel.sync.reducer.recorder = recorder;
  if (replicas == Replicas::kShardGradients) options.stage = ZeroStage::kGradients;
  if (replicas == Replicas::kShardParameters) {
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

}  // namespace

// A group is of one device.
std::unique_ptr<Optimizer> BuildOptimizer(const OptimizerConfig& config,
                                          std::vector<Shard> shards) {
  std::vector<ParameterGroup> groups;
  while (!shards.empty()) {
    const c10::Device device = shards[0].values.device();
    const auto rest = std::ranges::stable_partition(
        shards, [&](const Shard& one) { return one.values.device() == device; });
    const std::vector<Shard> here(shards.begin(), rest.begin());
    std::ranges::move(GroupShards(here, config.no_decay, config.weight_decay),
                      std::back_inserter(groups));
    shards.erase(shards.begin(), rest.begin());
  }
  return MakeOptimizer(OptimizerOptionsOf(config), std::move(groups));
}

void HandOutModel(const Model* whole, const Model& part, const Mesh& mesh) {
  const StateDict parts = SaveState([&](StateVisitor& visitor) {
    BeginSection("", {}, mesh, visitor);
    for (const auto& item : part.State()) {
      visitor.Tensor(item.key(), item.value(), part.PlacementOf(item.key()));
    }
  });
  torch::OrderedDict<std::string, at::Tensor> state;
  if (whole != nullptr) state = whole->State();
  DistributeWhole(parts, mesh.control.get(), [&](const std::string& name) { return state[name]; });
}

BuiltStrategy BuildStrategy(const Job& job,
                            const Mesh& mesh,
                            FlightRecorder* recorder,
                            bool joins) {
  const Config& config = job.config;
  BuiltStrategy built;
  // Rank 0 draws or reads the weights; the others receive them. A model that no rank has all of is
  // whole on rank 0's host alone.
  const bool owns_weights = mesh.world.rank == 0 && !joins;
  const ParallelDims dims = ValueOrThrow(ResolveDims(config, mesh.world.size));
  const bool in_parts = dims.in_parts();
  if (owns_weights || !in_parts) {
    built.model =
        BuildModel(job, owns_weights, in_parts ? at::kCPU : mesh.device, &built.fresh_parameters);
  }
  if (dims.in_stages) return BuildPipeline(job, dims, mesh, recorder, std::move(built));
  if (in_parts) built.model = OwnPart(job, built.model.get(), mesh);
  if (dims.replicas == Replicas::kNone) {
    built.strategy =
        MakeSingle(built.model, BuildOptimizer(config.optimizer, TrainedOf(*built.model)), mesh);
    return built;
  }
  if (dims.shares_state()) {
    built.strategy = BuildZero(job, built.model, mesh, dims.replicas, recorder);
    return built;
  }
  std::unique_ptr<Optimizer> optimizer = BuildOptimizer(config.optimizer, TrainedOf(*built.model));
  if (dims.replicas == Replicas::kDevices) {
    built.strategy = BuildDataParallel(job, built.model, std::move(optimizer));
    return built;
  }
  DataParallelOptions options = DataParallelOptionsOf(config);
  options.virtual_ranks = config.training.virtual_ranks;
  options.sync.reducer.recorder = recorder;
  options.sync.rejoins = joins;
  built.strategy = MakeDistributedDataParallel(built.model, std::move(optimizer), mesh, options);
  return built;
}

std::shared_ptr<Model> GatherModel(const Job& job, Strategy& strategy, const Mesh& mesh) {
  std::shared_ptr<Model> whole;
  torch::OrderedDict<std::string, at::Tensor> tensors;
  if (mesh.world.rank == 0) {
    whole = MakeModel(job.model, {}, /*initialize=*/false);
    tensors = whole->State();
  }
  const std::string prefix = "model.";
  GatherWhole(strategy.State(), prefix, mesh.control.get(),
              [&](const std::string& name, const at::Tensor& tensor) {
                tensors[name.substr(prefix.size())].copy_(tensor);
              });
  return whole;
}

}  // namespace ddprun::trainer

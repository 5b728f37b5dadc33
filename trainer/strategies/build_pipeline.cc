#include "trainer/strategies/build_pipeline.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "trainer/job/options_of.h"
#include "trainer/job/split_model.h"
#include "trainer/parallel/tensor_parallel.h"
#include "trainer/strategies/build_model.h"
#include "trainer/strategies/pipeline.h"
#include "trainer/strategies/strategy_options.h"
#include "trainer/strategies/zero.h"

namespace ddprun::trainer {

namespace {

// Returns all stages of the pipeline.
std::vector<PipelineStage> StagesOf(const std::vector<int64_t>& parts,
                                    const std::vector<c10::Device>& devices) {
  std::vector<PipelineStage> stages;
  size_t begin = 0;
  for (const int64_t count : parts) {
    const size_t end = begin + static_cast<size_t>(count);
    stages.push_back({static_cast<int>(stages.size()), begin, end, devices[stages.size()]});
    begin = end;
  }
  return stages;
}

// Returns a line for each stage, such as "stage 0 on cpu: tokens to blocks.1".
std::vector<std::string> PlacementText(const std::vector<PipelineStage>& stages,
                                       const std::vector<Stage>& parts,
                                       bool over_ranks) {
  std::vector<std::string> lines;
  for (const PipelineStage& stage : stages) {
    std::vector<std::string> modules;
    for (size_t i = stage.begin; i < stage.end; ++i) {
      modules.insert(modules.end(), parts[i].modules.begin(), parts[i].modules.end());
    }
    const std::string place = over_ranks ? "" : " on " + stage.device.str();
    lines.push_back("stage " + std::to_string(stage.index) + place + ": " +
                    (modules.size() > 3 ? modules.front() + " to " + modules.back()
                                        : FormatList(modules, ", ")));
  }
  return lines;
}

ScheduleActions ScheduleOf(const StrategyConfig& strategy, bool one_by_one) {
  if (one_by_one) return &OneByOneActions;
  return strategy.pipeline_schedule == PipelineSchedule::kGpipe ? &GpipeActions
                                                                : &OneForwardOneBackwardActions;
}

// A collective. Rank 0 counts the costs of parts, because only its model has values.
std::vector<int64_t> PartsOfAll(const Job& job, const Model& model, int stages, const Mesh& mesh) {
  std::vector<int64_t> parts = PartsOfStages(job, model, stages);
  parts.resize(static_cast<size_t>(stages));
  std::vector<at::Tensor> tensors = {at::tensor(parts, at::kLong)};
  if (mesh.control != nullptr) mesh.control->broadcast(tensors, c10d::BroadcastOptions{})->wait();
  const auto* numbers = tensors[0].const_data_ptr<int64_t>();
  return {numbers, numbers + stages};
}

PipelineUpdate UpdateOf(const Job& job,
                        const Model& model,
                        bool shares_state,
                        const Mesh& mesh,
                        const std::vector<NamedParameter>& parameters,
                        int64_t bytes) {
  if (parameters.empty()) return {};
  const OptimizerConfig& config = job.config.optimizer;
  if (shares_state && mesh.shard.size > 1) {
    auto shards = std::make_shared<ShardedUpdate>(parameters, mesh.shard, bytes);
    return {BuildOptimizer(config, ShardsOfModel(model, shards->units())), shards};
  }
  std::vector<Shard> whole;
  for (const NamedParameter& one : parameters) {
    whole.push_back({one.name, one.tensor, model.PlacementOf(one.name)});
  }
  return {BuildOptimizer(config, std::move(whole))};
}

}  // namespace

BuiltStrategy BuildPipeline(const BuildInputs& in, std::shared_ptr<Model> whole) {
  const Job& job = in.job;
  const ParallelDims& dims = in.dims;
  const Mesh& mesh = in.mesh;
  const Config& config = job.config;
  BuiltStrategy built;
  if (whole != nullptr) whole->eval();  // running means stay
  std::shared_ptr<const Model> shape = whole != nullptr ? whole : job.shape;
  if (shape == nullptr) shape = MakeModelShape(job.model);
  std::vector<c10::Device> devices = DevicesOf(config.strategy);
  const bool over_ranks = devices.empty();
  if (over_ranks) devices.resize(static_cast<size_t>(dims.stages), mesh.device);
  const std::vector<Stage> parts = shape->Stages(FirstSample(job));
  const auto all = StagesOf(PartsOfAll(job, *shape, dims.stages, mesh), devices);
  if (mesh.world.rank == 0) built.notes.stages = PlacementText(all, parts, over_ranks);
  PipelineOptions options{
      .schedule = ScheduleOf(config.strategy, dims.one_by_one), .stages = dims.stages, .own = all};
  if (over_ranks) options.own = {all[static_cast<size_t>(mesh.pipeline.rank)]};
  const auto stages_that_have = [&](const std::string& name) {
    std::vector<int> found;
    for (const PipelineStage& stage : all) {
      const auto own = std::span(parts).subspan(stage.begin, stage.end - stage.begin);
      if (std::ranges::any_of(own, [&](const Stage& part) { return part.Holds(name); })) {
        found.push_back(stage.index);
      }
    }
    return found;
  };
  {
    const SplitLayersScope axis(mesh.tensor.size > 1 ? MakeTensorAxis(mesh.tensor) : nullptr);
    built.model = MakeModelParts(job.model, {config.training.loss, config.training.label_smoothing},
                                 [&](const std::string& name) {
                                   const std::vector<int> holders = stages_that_have(name);
                                   if (!over_ranks)
                                     return devices[static_cast<size_t>(holders.at(0))];
                                   return std::ranges::count(holders, mesh.pipeline.rank) > 0
                                              ? mesh.device
                                              : c10::Device(at::kMeta);
                                 });
  }
  built.model->DropMetaModules();
  HandOutModel(whole.get(), *built.model, mesh);
  if (config.training.gradient_checkpointing) RecomputeBlocks(*built.model);
  std::vector<NamedParameter> own;
  std::vector<NamedParameter> shared;
  for (const auto& [name, tensor] : built.model->named_parameters().pairs()) {
    const std::vector<int> holders = stages_that_have(name);
    const bool is_shared = over_ranks && holders.size() > 1;
    (is_shared ? shared : own).push_back({name, tensor});
    if (is_shared) options.shared.push_back({name, tensor, holders});
  }
  options.sync = DataParallelOptionsOf(config).sync;
  options.sync.reducer.recorder = in.recorder;
  const auto update_of = [&](const std::vector<NamedParameter>& parameters) {
    return UpdateOf(job, *built.model, dims.shares_state(), mesh, parameters,
                    options.sync.reducer.limits.cap_bytes);
  };
  built.strategy = MakePipeline(built.model, update_of(own), update_of(shared), mesh, options);
  return built;
}

}  // namespace ddprun::trainer

#include "trainer/loop/build_pipeline.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/loop/options_of.h"
#include "trainer/parallel/pipeline.h"
#include "trainer/parallel/tensor_parallel.h"
#include "trainer/parallel/zero.h"

namespace ddprun::trainer {

namespace {

Batch FirstSample(const Job& job) {
  const int64_t index = 0;
  return job.train->Get({&index, 1});
}

int64_t RowsOf(const at::Tensor& x) {
  return x.numel() / std::max<int64_t>(1, x.dim() == 4 ? x.size(1) : x.size(-1));
}

// Multiplications of each part's forward pass for one sample: the same on every machine and in
// every run, which times are not. What a part does besides, attention's products among it, is about
// in proportion where parts repeat.
std::vector<double> CostsOf(const Model& model, const Batch& sample) {
  const at::NoGradGuard no_grad;
  std::vector<double> costs;
  at::Tensor x = sample.inputs;
  for (const Stage& stage : model.Stages(sample)) {
    const bool looks_up = costs.empty() && !x.is_floating_point();
    x = stage.forward(x);
    double weights = 0;
    for (const at::Tensor& parameter : model.ParametersOf(stage)) {
      if (parameter.dim() >= 2) weights += static_cast<double>(parameter.numel());
    }
    costs.push_back(looks_up ? static_cast<double>(x.numel())
                             : weights * static_cast<double>(RowsOf(x)));
  }
  return costs;
}

Failure BadStages(const std::string& title, std::string what, std::string hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = title,
                       .where = "strategy.type \"pipeline\"",
                       .what = std::move(what),
                       .hint = std::move(hint),
                       .page = "stages-of-a-pipeline"});
}

std::string ListOf(const std::vector<int64_t>& numbers) {
  return "[" + FormatList(numbers) + "]";
}

// Numbers of parts; or of blocks, where those before the first block go to the first stage, those
// behind the last one to the last stage.
std::vector<int64_t> GivenSplit(const std::vector<Stage>& parts,
                                std::vector<int64_t> given,
                                int stages) {
  const auto count = static_cast<int64_t>(parts.size());
  const auto blocks = std::ranges::count_if(parts, &Stage::is_block);
  const int64_t sum = std::accumulate(given.begin(), given.end(), int64_t{0});
  if (sum == blocks && !given.empty()) {
    const auto first = std::ranges::find_if(parts, &Stage::is_block) - parts.begin();
    given.front() += first;
    given.back() += count - blocks - first;
  }
  if ((sum == blocks || sum == count) && std::cmp_equal(given.size(), stages) &&
      std::ranges::all_of(given, [](int64_t one) { return one > 0; })) {
    return given;
  }
  throw BadStages("LAYERS DO NOT FIT",
                  "strategy.layers_per_stage is " + ListOf(given) + " for " +
                      std::to_string(stages) + " stages; the model has " + std::to_string(blocks) +
                      " repeated layers, " + std::to_string(count) +
                      " with what is before and behind them.",
                  "Give " + std::to_string(stages) + " numbers of layers whose sum is " +
                      std::to_string(blocks) + " or " + std::to_string(count) +
                      ", none of them without anything to do, or remove the key.");
}

}  // namespace

std::vector<int64_t> PartsOfStages(const Job& job, const Model& model, int stages) {
  const Batch sample = FirstSample(job);
  const std::vector<Stage> parts = model.Stages(sample);
  if (std::cmp_less(parts.size(), stages)) {
    throw BadStages("TOO MANY STAGES",
                    "The model has " + std::to_string(parts.size()) + " parts, but there are " +
                        std::to_string(stages) + " stages: one at least for each was expected.",
                    "Take at most " + std::to_string(parts.size()) +
                        " stages (strategy.pipeline_parallel_size, or strategy.devices), or a "
                        "model of more layers.");
  }
  const std::vector<int64_t>& given = job.config.strategy.layers_per_stage;
  if (!given.empty()) return GivenSplit(parts, given, stages);
  if (model.parameters()[0].is_meta()) return {};
  return BalancedSplit(CostsOf(model, sample), stages);
}

void CheckStages(const Job& job, const ParallelDims& dims) {
  if (dims.in_stages && job.shape != nullptr) PartsOfStages(job, *job.shape, dims.stages);
}

int64_t PipelineMicroBatches(const Job& job, const ParallelDims& dims) {
  const StrategyConfig& strategy = job.config.strategy;
  if (!dims.in_stages || dims.one_by_one) return 1;
  if (strategy.pipeline_micro_batches > 0) return strategy.pipeline_micro_batches;
  // A batch norm's statistics are those of a micro-batch.
  if (job.shape == nullptr || !job.shape->buffers().empty()) return 1;
  const int64_t wanted = 2 * static_cast<int64_t>(dims.stages);
  const int64_t there = job.config.training.gradient_accumulation_steps;
  return (wanted + there - 1) / there;
}

namespace {

// All stages of the pipeline.
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

// "stage 0 on cpu: tokens to blocks.1"; one line a stage.
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

// What costs are counted by, which take values, is rank 0's.
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

BuiltStrategy BuildPipeline(const Job& job,
                            const ParallelDims& dims,
                            const Mesh& mesh,
                            FlightRecorder* recorder,
                            BuiltStrategy built) {
  const Config& config = job.config;
  const std::shared_ptr<Model> whole = std::move(built.model);
  if (whole != nullptr) whole->eval();  // running means stay
  std::shared_ptr<const Model> shape = whole != nullptr ? whole : job.shape;
  if (shape == nullptr) shape = MakeModelShape(job.model);
  std::vector<c10::Device> devices = DevicesOf(config.strategy);
  const bool over_ranks = devices.empty();
  if (over_ranks) devices.resize(static_cast<size_t>(dims.stages), mesh.device);
  const std::vector<Stage> parts = shape->Stages(FirstSample(job));
  const auto all = StagesOf(PartsOfAll(job, *shape, dims.stages, mesh), devices);
  if (mesh.world.rank == 0) built.placement = PlacementText(all, parts, over_ranks);
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
  options.sync.reducer.recorder = recorder;
  const auto update_of = [&](const std::vector<NamedParameter>& parameters) {
    return UpdateOf(job, *built.model, dims.shares_state(), mesh, parameters,
                    options.sync.reducer.limits.cap_bytes);
  };
  built.strategy = MakePipeline(built.model, update_of(own), update_of(shared), mesh, options);
  return built;
}

}  // namespace ddprun::trainer

#include <string>

#include "trainer/config/checker.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {

// What does not go together with a model whose layers are shared out.
void Checker::CheckPipeline() {
  const StrategyConfig& strategy = config_.strategy;
  const bool in_one_process = strategy.type == StrategyType::kModelParallel;
  const bool by_type = in_one_process || strategy.type == StrategyType::kPipeline;
  if (!by_type && strategy.pipeline_parallel_size <= 1) return CheckNoPipeline();
  // Elsewhere the size is refused as such.
  if (!by_type && strategy.type != StrategyType::kZero1) return;
  const std::string type =
      "strategy.type \"" + std::string(Word(strategy.type)) + "\"" + (by_type ? "" : " in stages");
  if (in_one_process && strategy.devices.empty()) Missing("strategy.devices", type);
  for (const auto& [key, size] :
       {std::pair("strategy.pipeline_parallel_size", strategy.pipeline_parallel_size),
        {"strategy.tensor_parallel_size", strategy.tensor_parallel_size}}) {
    if (strategy.devices.empty() || size <= 1) continue;
    Conflict(key,
             "The stages are on strategy.devices, all in one process:", "Remove one of the two.");
  }
  const auto refuse_if = [&](bool set, const char* key, const std::string& why) {
    if (set) Conflict(key, type + " " + why + ":", "Remove one of the two keys.");
  };
  refuse_if(config_.training.virtual_ranks > 0, "training.virtual_ranks",
            "shares out layers, which virtual ranks have all of");
  refuse_if(strategy.comm_hook != CommHookType::kNone, "strategy.comm_hook",
            "sends gradients as they are");
  refuse_if(strategy.overlap == Overlap::kStep || strategy.overlap == Overlap::kBoth,
            "strategy.overlap", "has all gradients before it updates parameters");
  refuse_if(strategy.optimizer_in_backward, "strategy.optimizer_in_backward",
            "has all gradients before it updates parameters");
  refuse_if(config_.report.state_hashes, "report.state_hashes",
            "has no rank that could hash the whole model");
  const ModelType model = config_.model.type;
  if (model == ModelType::kTorchScript || model == ModelType::kPlugin) {
    Conflict("strategy.type",
             "model.type \"" + std::string(Word(model)) +
                 "\" brings code of its own, whose layers are not known here:",
             "Take \"ddp\", where every rank has the whole model.");
  }
  if (config_.data.format == DataFormat::kPlugin && strategy.pipeline_micro_batches > 1) {
    Conflict("strategy.pipeline_micro_batches",
             "Only a plugin knows how many predictions a part of its batches has:",
             "Set it to 1, and training.gradient_accumulation_steps to the number of "
             "micro-batches.");
  }
}

// Keys of stages, where there are none.
void Checker::CheckNoPipeline() {
  if (config_.strategy.type != StrategyType::kZero1) return;  // else they are refused as such
  for (const std::string_view path :
       {"strategy.pipeline_schedule", "strategy.pipeline_micro_batches",
        "strategy.layers_per_stage"}) {
    if (IsDefault(GetKey(path), config_)) continue;
    Conflict(path, "strategy.type \"zero1\" has stages where it is told how many:",
             "Set strategy.pipeline_parallel_size, or remove the key.");
  }
}

}  // namespace ddprun::trainer

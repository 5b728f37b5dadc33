#include "trainer/config/facts.h"

#include <algorithm>
#include <iterator>

#include "trainer/config/keys.h"

namespace ddprun::trainer {

namespace {

using namespace fact;

const std::vector<Never> kOfLayerParts = {
    {{kUnsplitLayers}, "divides each layer"},
    {{kDevices}, "divides each layer over ranks"},
    {{kWholeModelHook}, "gives each rank a part of each parameter"}};
const std::vector<Never> kOfStages = {
    {{kHookedGradients}, "averages gradients as they are"},
    {{kEarlyUpdate}, "updates parameters after all gradients are averaged"},
    {{kOwnCode}, "needs to know the layers of the model"}};

// The order decides which of several obstacles is named.
const std::vector<Setting> kSettings = {
    {.key = "strategy.type", .words = {"single"}, .off = "\"ddp\"", .makes = {kOneProcess}},
    {.key = "strategy.type",
     .words = {"dp"},
     .off = "\"ddp\"",
     .makes = {kOneProcess, kDevices},
     .never = {{{kOwnCode}, "runs copies of the model at the same time"}}},
    {.key = "strategy.type",
     .words = {"tensor_parallel"},
     .makes = {kLayerParts, kOwnState},
     .never = kOfLayerParts},
    {.key = "strategy.type",
     .words = {"pipeline", "model_parallel"},
     .makes = {kStages, kOwnState},
     .never = kOfStages},
    {.key = "strategy.type",
     .words = {"zero1", "zero2", "zero3"},
     .makes = {kOptimizerParts, kOwnState},
     .never = {{{kEarlyUpdate}, "updates parameters after all gradients are averaged"},
               {{kLocalSteps}, "gives each rank a part of the optimizer's state"}}},
    {.key = "strategy.type",
     .words = {"zero2", "zero3"},
     .off = "\"zero1\"",
     .makes = {kGradientParts},
     .never = {{{kStages}, "would send gradients and weights for each micro-batch of a stage"},
               {{kHookedGradients}, "sends each rank only the gradients that it keeps"},
               {{kSentAfterBackward}, "has no memory for all gradients"},
               {{kPartialGradients}, "needs a gradient of each parameter in each step"},
               {{kChangingBuckets}, "keeps the buckets of its first step"}}},
    {.key = "strategy.type",
     .words = {"zero3"},
     .off = "\"zero2\"",
     .never = {{{kOwnCode}, "needs to know the blocks of the model"}}},
    {.key = "strategy.shard_size", .makes = {kSomeRanksShare}},
    {.key = "strategy.comm_hook", .words = {"fp16", "bf16"}, .makes = {kHookedGradients}},
    {.key = "strategy.comm_hook",
     .words = {"power_sgd"},
     .makes = {kOwnState, kHookedGradients, kWholeModelHook, kErrorFeedback}},
    {.key = "strategy.comm_hook",
     .words = {"post_local_sgd"},
     .makes = {kOwnState, kHookedGradients, kWholeModelHook, kLocalSteps}},
    {.key = "evaluation.early_stopping_patience",
     .never = {{{kLocalSteps}, "ends at a step that no rank knows before it"}}},
    {.key = "optimizer.ema_decay",
     .never = {{{kLocalSteps}, "averages one model, and each rank has its own then"}},
     .on = [](auto& config) { return config.optimizer.ema_decay > 0; }},
    {.key = "strategy.broadcast_buffers", .makes = {kOwnState, kOwnBuffers}},
    {.key = "strategy.tensor_parallel_size",
     .makes = {kLayerParts, kOwnState},
     .never = kOfLayerParts,
     .on = [](auto& config) { return config.strategy.tensor_parallel_size > 1; }},
    {.key = "strategy.pipeline_parallel_size",
     .makes = {kStages, kOwnState},
     .never = kOfStages,
     .on = [](auto& config) { return config.strategy.pipeline_parallel_size > 1; }},
    {.key = "strategy.pipeline_parallel_size",
     .never = {{{kDevices}, "has a rank for each stage"}},
     .on = [](auto& config) { return config.strategy.pipeline_parallel_size > 1; }},
    {.key = "strategy.pipeline_micro_batches",
     .off = "1, and training.gradient_accumulation_steps to the number of micro-batches",
     .never = {{{kOwnBatches}, "counts the predictions of each part of a batch"}},
     .on = [](auto& config) { return config.strategy.pipeline_micro_batches > 1; }},
    {.key = "training.class_weights",
     .off = "[], and training.balance_classes to false",
     .never = {{{kDevices}, "needs the weights of the samples on each device"}},
     .on =
         [](auto& config) {
           return config.training.balance_classes || !config.training.class_weights.empty();
         }},
    {.key = "data.weight_column",
     .never = {{{kDevices}, "needs the weights of the samples on each device"}},
     .on = [](auto& config) { return !config.data.weight_column.empty(); }},
    {.key = "strategy.devices", .makes = {kDevices}},
    {.key = "data.format", .words = {"plugin"}, .makes = {kOwnBatches}},
    {.key = "strategy.overlap",
     .words = {"step", "both"},
     .makes = {kEarlyUpdate},
     .never = {{{kUpdateInBackward}, "waits for gradients after it"}}},
    {.key = "strategy.overlap", .words = {"none"}, .makes = {kSentAfterBackward}},
    {.key = "comm.algorithm", .words = {"ring"}, .makes = {kRing}},
    {.key = "comm.emulated_link",
     .never = {{{kOneProcess}, "slows what ranks of several processes send"},
               {{kStages}, "slows collectives, not what stages send each other"}},
     .on = [](auto& config) { return config.comm.emulated_link > 0; }},
    {.key = "strategy.optimizer_in_backward", .makes = {kEarlyUpdate, kUpdateInBackward}},
    {.key = "strategy.find_unused_parameters", .makes = {kPartialGradients}},
    {.key = "strategy.static_graph", .makes = {kPartialGradients}},
    {.key = "strategy.check_finite", .makes = {kFiniteOnly}},
    {.key = "strategy.bucket_cap_mb", .words = {"auto"}, .makes = {kChangingBuckets}},
    {.key = "strategy.first_bucket_mb",
     .never = {{{kChangingBuckets}, "fixes the size of the first bucket"}}},
    {.key = "training.max_grad_norm",
     .off = "0",
     .never = {{{kEarlyUpdate}, "needs the norm of all gradients"}}},
    {.key = "training.max_grad_value",
     .off = "0",
     .makes = {kChangesGradients},
     .never = {{{kEarlyUpdate}, "clips gradients that are averaged"}}},
    {.key = "training.max_norm_jump",
     .off = "0",
     .makes = {kHostDecides, kChangesGradients},
     .never = {{{kEarlyUpdate}, "needs the norm of all gradients"},
               {{kLocalSteps}, "needs the same norm on all ranks"}}},
    {.key = "training.precision",
     .words = {"fp16"},
     .makes = {kHostDecides},
     .never = {{{kEarlyUpdate}, "skips a step if any gradient is not finite"},
               {{kFiniteOnly}, "skips a step if any gradient is not finite"},
               {{kErrorFeedback}, "has gradients that are not finite, which would never go away"},
               {{kLocalSteps}, "needs the same loss scale on all ranks"}}},
    {.key = "report.state_hashes",
     .makes = {kHashes, kHostDecides},
     .never = {{{kLayerParts, kStages, kGradientParts}, "hashes whole gradients and weights"}}},
    {.key = "training.virtual_ranks",
     .makes = {kFixedSums, kHostSeeds},
     .never = {{{kOneProcess}, "needs strategy.type \"ddp\", also with one process"},
               {{kHookedGradients, kOptimizerParts},
                "promises the same bits for any number of processes"},
               {{kOwnBuffers}, "begins each step with the same buffers on all ranks"},
               {{kLayerParts, kStages}, "gives each virtual rank the whole model"}}},
    {.key = "training.gradient_checkpointing",
     .makes = {kHostSeeds},
     .never = {{{kOwnCode}, "needs to know the blocks of the model"}}},
    {.key = "training.gradient_accumulation_steps", .makes = {kHostSeeds}},
    {.key = "training.freeze", .never = {{{kStages}, "could leave a stage nothing to train"}}},
    {.key = "training.lora_r",
     .never = {{{kLayerParts}, "adds matrices to whole layers"},
               {{kStages}, "could leave a stage nothing to train"}}},
    {.key = "model.type",
     .words = {"plugin", "torchscript"},
     .off = "a model of ddprun",
     .makes = {kOwnCode, kUnsplitLayers}},
    {.key = "model.type",
     .words = {"cnn", "resnet18", "resnet34", "resnet50", "resnet101"},
     .off = "\"gpt\", \"llama\", \"bert\", \"mlp\" or \"linear\"",
     .makes = {kUnsplitLayers}},
    {.key = "run.recovery",
     .words = {"peer"},
     .off = "\"auto\", which recovers where it can",
     .never = {{{kOneProcess, kOwnState}, "takes the state of a lost rank from other ranks"},
               {{kEarlyUpdate}, "repeats a step only if no rank has updated parameters"},
               {{kRing, kFixedSums, kHashes}, "repeats the step of a lost rank, bit for bit"}}},
    {.key = "run.recovery",
     .words = {"memory"},
     .off = "\"auto\", which recovers where it can",
     .never = {{{kOneProcess}, "takes the state of a lost rank from other ranks"},
               {{kLayerParts, kStages, kErrorFeedback, kLocalSteps, kOwnBuffers},
                "keeps only the state that \"zero1\", \"zero2\" and \"zero3\" divide"},
               {{kSomeRanksShare}, "connects all ranks anew, and no groups of some of them"},
               {{kEarlyUpdate}, "repeats a step only if no rank has updated parameters"},
               {{kRing, kFixedSums, kHashes}, "repeats the step of a lost rank, bit for bit"}}},
    // step_graph.cc has the device's own reasons.
    {.key = "training.cuda_graph",
     .never = {{{kDevices, kLayerParts, kStages, kOptimizerParts, kOwnCode, kHostDecides,
                 kHostSeeds, kHookedGradients, kChangesGradients, kEarlyUpdate, kPartialGradients,
                 kFiniteOnly, kChangingBuckets}}},
     .yields = true},
    {.key = "giving up a step", .never = {{{kStages, kDevices}}}, .yields = true},
};

std::string OffText(const Setting& setting) {
  return setting.off.empty() ? DefaultText(GetKey(setting.key)) : std::string(setting.off);
}

bool IsOn(const Setting& setting, const Config& config) {
  if (setting.on != nullptr) return setting.on(config);
  const Key& key = GetKey(setting.key);
  if (!setting.words.empty()) return HasWord(key, setting.words, config);
  return ValueText(key, config) != OffText(setting);
}

std::string TextOf(const Setting& setting, const Config& config) {
  return std::string(setting.key) + " " + ValueText(GetKey(setting.key), config);
}

}  // namespace

std::span<const Setting> AllSettings() {
  return kSettings;
}

std::vector<Conflict> ConflictsOf(const Config& config, std::span<const Setting> settings) {
  std::vector<Conflict> conflicts;
  const auto add = [&](const Setting& maker, const Setting& refuser, const Never& never) {
    const auto fact = std::ranges::find_first_of(never.facts, maker.makes);
    if (fact == never.facts.end() || !IsOn(maker, config)) return;
    const bool known = std::ranges::any_of(conflicts, [&](const Conflict& one) {
      const bool same_maker = one.maker == maker.key;
      const bool same_refuser = one.refuser == refuser.key;
      return (same_maker && same_refuser) || (same_maker && one.because == never.because) ||
             (same_refuser && one.fact == *fact);
    });
    if (known) return;
    conflicts.push_back({maker.key, refuser.key, *fact, never.because,
                         TextOf(maker, config) + " " + std::string(*fact) + ", but " +
                             TextOf(refuser, config) + " " + std::string(never.because) + ":",
                         "Set " + std::string(maker.key) + " to " + OffText(maker) + ", or " +
                             std::string(refuser.key) + " to " + OffText(refuser) + "."});
  };
  for (const Setting& refuser : settings) {
    if (refuser.yields || refuser.never.empty() || !IsOn(refuser, config)) continue;
    for (const Never& never : refuser.never) {
      for (const Setting& maker : settings) add(maker, refuser, never);
    }
  }
  return conflicts;
}

std::string SettingThatMakes(const std::vector<Fact>& facts,
                             const Config& config,
                             std::span<const Setting> settings) {
  for (const Setting& setting : settings) {
    const bool makes = std::ranges::find_first_of(setting.makes, facts) != setting.makes.end();
    if (makes && IsOn(setting, config)) return TextOf(setting, config);
  }
  return "";
}

std::string ObstacleTo(std::string_view key,
                       const Config& config,
                       std::span<const Setting> settings,
                       std::string_view word) {
  std::vector<Fact> facts;
  for (const Setting& setting : settings) {
    const auto& words = setting.words;
    if (setting.key != key || (!word.empty() && std::ranges::find(words, word) == words.end())) {
      continue;
    }
    for (const Never& never : setting.never)
      std::ranges::copy(never.facts, std::back_inserter(facts));
  }
  return SettingThatMakes(facts, config, settings);
}

}  // namespace ddprun::trainer

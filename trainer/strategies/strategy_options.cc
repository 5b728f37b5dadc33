#include "trainer/strategies/strategy_options.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <ddprun/comm_hook.h>
#include "trainer/config/parameter_factors.h"
#include "trainer/job/options_of.h"
#include "trainer/optim/name_words.h"
#include "trainer/strategies/zero.h"

namespace ddprun::trainer {

namespace {

std::shared_ptr<CommHook> CommHookOf(const StrategyConfig& config) {
  switch (config.comm_hook) {
    case CommHookType::kNone:
      break;
    case CommHookType::kFp16:
      return MakeCompressHook(at::kHalf);
    case CommHookType::kBf16:
      return MakeCompressHook(at::kBFloat16);
    case CommHookType::kPowerSgd:
      return MakePowerSgdHook(
          {.rank = config.power_sgd_rank, .start_step = config.power_sgd_start_step});
    case CommHookType::kPostLocalSgd:
      return MakePostLocalSgdHook({.start_step = config.post_local_sgd_start_step});
  }
  return nullptr;
}

// Returns the product of the factors whose words are in the name.
double FactorOf(const std::string& name, const std::vector<ParameterFactor>& factors) {
  double product = 1;
  for (const ParameterFactor& one : factors) {
    if (HasAnyWord(name, {one.word})) product *= one.factor;
  }
  return product;
}

}  // namespace

DataParallelOptions DataParallelOptionsOf(const Config& job) {
  const StrategyConfig& config = job.strategy;
  DataParallelOptions options{
      .sync = ModuleSync::OptionsOf({.bucket_cap_mb = config.bucket_cap_mb.number,
                                     .first_bucket_mb = config.first_bucket_mb,
                                     .tune_buckets = config.bucket_cap_mb.automatic,
                                     .overlap = config.overlap,
                                     .find_unused_parameters = config.find_unused_parameters,
                                     .static_graph = config.static_graph,
                                     .check_finite = config.check_finite,
                                     .broadcast_buffers = config.broadcast_buffers,
                                     .comm_hook = CommHookOf(config)}),
      .update_in_backward = config.optimizer_in_backward};
  options.sync.reducer.keep_order = job.comm.algorithm == AllReduceAlgorithm::kRing;
  if (config.comm_hook == CommHookType::kPostLocalSgd) {
    options.averaging = {.period = config.post_local_sgd_period,
                         .warmup_steps = config.post_local_sgd_start_step};
  }
  return options;
}

std::unique_ptr<Optimizer> BuildOptimizer(const OptimizerConfig& config,
                                          std::vector<Shard> shards) {
  const std::vector<ParameterFactor> rates = ParameterFactorsOf(config.learning_rate_factors);
  const std::vector<ParameterFactor> decays = ParameterFactorsOf(config.weight_decay_factors);
  const auto kind = [&](const Shard& shard) {
    return std::tuple(shard.values.device(), FactorOf(shard.name, rates),
                      FactorOf(shard.name, decays));
  };
  std::vector<ParameterGroup> groups;  // each of one device
  while (!shards.empty()) {
    const auto first = kind(shards[0]);
    const auto [device, rate, decay] = first;
    const auto rest = std::stable_partition(shards.begin(), shards.end(),
                                            [&](const Shard& one) { return kind(one) == first; });
    const std::vector<Shard> here(shards.begin(), rest);
    for (ParameterGroup& group : GroupShards(here, config.no_decay, config.weight_decay * decay)) {
      group.learning_rate_factor = rate;
      groups.push_back(std::move(group));
    }
    shards.erase(shards.begin(), rest);
  }
  std::unique_ptr<Optimizer> optimizer =
      MakeOptimizer(OptimizerOptionsOf(config), std::move(groups));
  if (config.ema_decay > 0) optimizer->KeepAverages(config.ema_decay);
  return optimizer;
}

std::unique_ptr<Optimizer> OptimizerOf(const OptimizerConfig& config, const Model& model) {
  std::vector<Shard> trained;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    trained.push_back({item.key(), item.value(), model.PlacementOf(item.key())});
  }
  return BuildOptimizer(config, std::move(trained));
}

}  // namespace ddprun::trainer

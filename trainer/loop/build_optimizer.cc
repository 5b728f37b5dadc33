#include "trainer/loop/build_optimizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trainer/loop/options_of.h"
#include "trainer/parallel/zero.h"

namespace ddprun::trainer {

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

}  // namespace ddprun::trainer

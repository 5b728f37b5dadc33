// Computes what each strategy would cost a job on given ranks, and which strategy to take.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cgroup_memory.h"
#include "trainer/job/estimate_memory.h"

namespace ddprun::trainer {

struct StrategyCost {
  int64_t samples = 0;    // of a step, over all ranks
  MemoryEstimate memory;  // of the rank that needs most
  double machine = 0;     // bytes: all ranks of the machine that needs most
  double sent = 0;        // bytes in a step: by the rank that sends most
  double idle = 0;        // share of a step in which a stage of a pipeline waits for others
};

// Returns the cost of job.config. `rank` is on machine 0. Throws Failure if they do not fit.
StrategyCost CostOf(const Job& job, const RankInfo& rank);

enum class Fit { kYes, kPerhaps, kNo };

struct PlannedStrategy {
  std::string name;               // "pipeline 2 x tensor 2 x data 2"
  std::vector<std::string> keys;  // for --set
  std::optional<StrategyCost> cost = {};
  std::string refused = {};  // why the strategy is not possible, if it has no cost
  Fit fit = Fit::kNo;
};

struct StrategyPlan {
  int ranks = 1;
  int nodes = 1;
  std::optional<MemoryLimit> limit;  // of each machine
  std::vector<PlannedStrategy> strategies;
  std::optional<size_t> taken;  // index
  std::string why;              // a line
};

// Returns the config with these overrides. Throws Failure if they do not go together.
using ReadConfigWith = std::function<Config(const std::vector<std::string>& keys)>;

// Returns strategies, from the simplest to the one that saves most memory, and takes the first that
// fits. `job` must be opened.
StrategyPlan PlanStrategies(Job job,
                            const ReadConfigWith& read,
                            const RankInfo& rank,
                            const std::optional<MemoryLimit>& limit);

// Returns a table, the strategies that are not possible, and the strategy to take.
std::string PlanText(const StrategyPlan& plan);
std::string PlanJson(const StrategyPlan& plan);

}  // namespace ddprun::trainer

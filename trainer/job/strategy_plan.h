// What each strategy would cost a job on the ranks at hand, and which one to take. By formulas.
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
  double idle = 0;        // share of a step: stages of a pipeline that wait for the others
};

// As job.config says. `rank`: of the first machine. Throws Failure where it is not for such ranks.
StrategyCost CostOf(const Job& job, const RankInfo& rank);

enum class Fit { kYes, kPerhaps, kNo };

struct PlannedStrategy {
  std::string name;               // "pipeline 2 x tensor 2 x data 2"
  std::vector<std::string> keys;  // for --set
  std::optional<StrategyCost> cost = {};
  std::string refused = {};  // why it is not possible; with no cost
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

// The config with these overrides. Throws Failure where they do not go together.
using ReadConfigWith = std::function<Config(const std::vector<std::string>& keys)>;

// `job`: opened. Strategies from the simplest to those that save most memory; the first that fits
// is taken.
StrategyPlan PlanStrategies(Job job,
                            const ReadConfigWith& read,
                            const RankInfo& rank,
                            const std::optional<MemoryLimit>& limit);

// A table, what is not possible, and what to take.
std::string PlanText(const StrategyPlan& plan);
std::string PlanJson(const StrategyPlan& plan);

}  // namespace ddprun::trainer

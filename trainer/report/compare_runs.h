// Where two runs part: their configs, and what report.state_hashes has kept of their steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

struct ConfigDifference {
  std::string key;    // "run.seed"
  std::string first;  // as JSON; empty: the run does not have the key
  std::string second;
};

// Of config.resolved.json of two run folders, but for the runs' names. Error: one cannot be read.
Result<std::vector<ConfigDifference>> CompareConfigs(const std::string& first,
                                                     const std::string& second);

struct HashDifference {
  int64_t step = 0;
  std::string tensor;   // the first that differs, in the order of a step: gradients, then weights
  int rank = 0;         // the first that has it so
  int64_t tensors = 0;  // that differ in this step, of all ranks
};

struct HashComparison {
  int64_t steps = 0;  // that both have
  std::optional<HashDifference> first = {};
  std::string other_names = {};  // not empty: a tensor that only one of the runs has
};

// Of the state hashes of two run folders. nullopt: one has none.
std::optional<HashComparison> CompareHashes(const std::string& first, const std::string& second);

// Of one run: the first step in which a rank has other tensors than rank 0. nullopt: none, or the
// run has no state hashes.
std::optional<HashDifference> CompareRanks(const std::string& run);

}  // namespace ddprun::trainer

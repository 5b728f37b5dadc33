// Compares two runs: their configs, and the hashes of their steps (report.state_hashes).
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

// Compares config.resolved.json of two run folders, without run names. Error: one cannot be read.
Result<std::vector<ConfigDifference>> CompareConfigs(const std::string& first,
                                                     const std::string& second);

struct HashDifference {
  int64_t step = 0;
  std::string tensor;   // the first that differs, in a step's order: gradients, then weights
  int rank = 0;         // the first rank with this difference
  int64_t tensors = 0;  // that differ in this step, of all ranks
};

struct HashComparison {
  int64_t steps = 0;  // that both runs have
  std::optional<HashDifference> first = {};
  std::string other_names = {};  // not empty: a tensor that only one of the runs has
};

// Compares the state hashes of two run folders. Returns nullopt if one has none.
std::optional<HashComparison> CompareHashes(const std::string& first, const std::string& second);

// Returns the first step of a run in which the tensors of a rank differ from rank 0's. Returns
// nullopt if there is none, or if the run has no state hashes.
std::optional<HashDifference> CompareRanks(const std::string& run);

}  // namespace ddprun::trainer

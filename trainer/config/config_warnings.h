// Warnings about keys that have no effect in this run, or another one than their writer expects.
// They need the opened data and the number of ranks. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// 0 means unknown.
struct RunFacts {
  int64_t ranks = 0;
  int64_t samples_per_rank = 0;   // of training, in an epoch
  int64_t batches_per_epoch = 0;  // of each rank
  int64_t steps_per_epoch = 0;    // optimizer steps
  int64_t total_steps = 0;        // optimizer steps
  int64_t classes = 0;            // of the training data's targets
  bool has_validation_data = false;
};

// Returns warnings of one or two sentences that begin with their key. The run continues.
std::vector<std::string> ConfigWarnings(const Config& config, const RunFacts& facts);

// Returns the first key, with its value, that gives a rank state of its own; "" means none.
std::string KeyOfOwnState(const Config& config);

// Returns the first key, with its value, that contradicts run.recovery "peer"; "" means none.
std::string RecoveryObstacle(const Config& config);

}  // namespace ddprun::trainer

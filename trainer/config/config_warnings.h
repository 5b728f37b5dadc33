// What in a config a run will not feel, or otherwise than its writer thinks: known only once the
// data has been opened and the ranks counted. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// 0 where it is not known.
struct RunFacts {
  int64_t ranks = 0;
  int64_t samples_per_rank = 0;   // of training, in an epoch
  int64_t batches_per_epoch = 0;  // of each rank
  int64_t steps_per_epoch = 0;    // optimizer steps
  int64_t total_steps = 0;        // optimizer steps
  int64_t classes = 0;            // that the targets of the training data tell apart
  bool has_validation_data = false;
};

// One or two sentences each, that begin with the key they are about. A run goes on all the same.
std::vector<std::string> ConfigWarnings(const Config& config, const RunFacts& facts);

// The first key, with its value, by which a rank of several has state that others have not; empty:
// none.
std::string KeyOfOwnState(const Config& config);

// The first key, with its value, that does not go with run.recovery "peer"; empty: none.
std::string RecoveryObstacle(const Config& config);

}  // namespace ddprun::trainer

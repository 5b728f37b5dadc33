// Learning rates of some parameters: optimizer.learning_rate_factors.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/training_config.h"

namespace ddprun::trainer {

// The parameters whose names have `word` (trainer/optim/name_words.h) get the learning rate times
// `factor`.
struct RateFactor {
  std::string word;
  double factor = 1;
};

// REQUIRES: the config was checked.
std::vector<RateFactor> RateFactorsOf(const OptimizerConfig& config);

}  // namespace ddprun::trainer

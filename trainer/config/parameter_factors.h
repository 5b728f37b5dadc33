// Factors of the learning rate and of the weight decay of some parameters:
// optimizer.learning_rate_factors and optimizer.weight_decay_factors.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/value_types.h"

namespace ddprun::trainer {

// The parameters whose names have `word` (trainer/optim/name_words.h) get the learning rate, or the
// weight decay, times `factor`.
struct ParameterFactor {
  std::string word;
  double factor = 1;
};

// REQUIRES: the key was checked.
std::vector<ParameterFactor> ParameterFactorsOf(const JsonText& factors);

}  // namespace ddprun::trainer

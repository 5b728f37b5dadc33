// Parameters that a config chooses by words of their names.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/optimizer_config.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// Has no gradients computed for the parameters whose names have one of the words.
void Freeze(Model& model, const std::vector<std::string>& words);

// Throws Failure if a word is in no parameter's name, or if no parameter is left to train. `shape`
// is the whole model.
void CheckFreeze(const Model& shape, const std::vector<std::string>& words);

// Throws Failure if a word of optimizer.learning_rate_factors or weight_decay_factors is in no
// parameter's name.
void CheckParameterFactors(const Model& shape, const OptimizerConfig& config);

}  // namespace ddprun::trainer

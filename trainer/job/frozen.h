// Parameters that a run does not train (training.freeze).
#pragma once

#include <string>
#include <vector>

#include "trainer/models/model.h"

namespace ddprun::trainer {

// Has no gradients computed for the parameters whose names have one of the words.
void Freeze(Model& model, const std::vector<std::string>& words);

// Throws Failure if a word is in no parameter's name, or if no parameter is left to train. `shape`
// is the whole model.
void CheckFreeze(const Model& shape, const std::vector<std::string>& words);

}  // namespace ddprun::trainer

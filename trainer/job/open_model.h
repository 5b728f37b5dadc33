// From the section "model" of a config to a model's options.
#pragma once

#include "trainer/config/config.h"
#include "trainer/data/dataset.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// With a model folder the sizes are those of its config.json, which are also written into
// `config`, and keys that the config gives must agree with them. Throws Failure.
ModelOptions OpenModel(Config& config);

// Takes the names of the classes from the data. Throws Failure when the data has more tokens or
// classes than the model.
void FitModelToData(const DataShape& data, const Config& config, ModelOptions& model);

}  // namespace ddprun::trainer

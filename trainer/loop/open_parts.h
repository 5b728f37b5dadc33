// From sections "model" and "data" of a config to the parts of a job.
#pragma once

#include "trainer/loop/job.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// With a model folder the sizes are those of its config.json, which are also written into
// `config`, and keys that the config gives must agree with them. Throws Failure.
ModelOptions OpenModel(Config& config);

// Takes the names of the classes from the data. Throws Failure when the data has more tokens or
// classes than the model.
void FitModelToData(const DataShape& data, const Config& config, ModelOptions& model);

// Fills job.train, job.validation and what belongs to them.
void OpenData(Job& job, const Attempt& attempt);

}  // namespace ddprun::trainer

// Makes a model's options from the section "model" of a config.
#pragma once

#include "trainer/config/config.h"
#include "trainer/data/dataset.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// Returns the model's options. If there is a model folder, takes the sizes from its config.json and
// writes them into `config`; given keys must agree with the folder. Throws Failure.
ModelOptions OpenModel(Config& config);

// Takes the names of the classes from the data. Throws Failure if the data has more tokens or
// classes than the model.
void FitModelToData(const DataShape& data, const Config& config, ModelOptions& model);

// Throws Failure if a model whose outputs are as many as the data's classes or numbers cannot be
// trained with this loss: the first step would throw.
void CheckLossOfData(const DataShape& data, Loss loss, const ModelOptions& model);

}  // namespace ddprun::trainer

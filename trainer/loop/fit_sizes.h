// Models whose inputs and outputs are as many as the data's.
#pragma once

#include "trainer/data/dataset.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// Gives a linear model, a CNN or a ResNet its sizes, and compares those of an MLP with the data;
// leaves other models alone. Throws Failure when they do not fit.
void FitSizesToData(const DataShape& data, ModelOptions& model);

}  // namespace ddprun::trainer

// Weights of classes in the loss.
#pragma once

#include "trainer/config/config.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

// With training.balance_classes, sets training.class_weights as scikit-learn's "balanced": samples
// / (classes that occur * samples of the class); a class that does not occur gets 1. Throws Failure
// if the data has no classes, or another number of them than there are weights.
void SettleClassWeights(const Dataset& train, TrainingConfig& training);

}  // namespace ddprun::trainer

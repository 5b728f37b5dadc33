// Predicts with the model of a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/worker/prediction_text.h"

namespace ddprun::trainer {

// Calls `write` with the text of the predictions for each batch, in the order of the samples, and
// returns their number. The files are of the format of the run's training data, but need no
// targets. Predicts with the batches and the precision of the run's evaluation, on one process and
// the CPU. Throws Failure, also after some calls, and if the model is a language model.
int64_t PredictCheckpoint(const Checkpoint& checkpoint,
                          const std::vector<std::string>& files,
                          PredictionFormat format,
                          const Environment& environment,
                          const std::function<void(const std::string& text)>& write);

}  // namespace ddprun::trainer

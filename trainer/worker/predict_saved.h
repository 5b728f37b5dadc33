// Predicts with a saved model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/worker/prediction_text.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

// Calls `write` on rank 0 with the text of the predictions for each batch, in the order of the
// samples, and returns their number. The files are of the format of the run's training data, but
// need no targets. Predicts with the batches and the precision of the run's evaluation. The ranks
// of the mesh take turns with the batches, so that their number does not change a prediction. A
// collective. Throws Failure, also after some calls, and if the model is a language model.
int64_t PredictSaved(const SavedJob& saved,
                     const std::vector<std::string>& files,
                     PredictionFormat format,
                     const Mesh& mesh,
                     const std::function<void(const std::string& text)>& write);

}  // namespace ddprun::trainer

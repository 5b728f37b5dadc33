// The best state of a run (checkpoint.save_best), at the run's end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Returns the checkpoint in `folder` with the best score; nullopt if none has a score. Error: the
// folder cannot be read.
Result<std::optional<StoredCheckpoint>> FindBest(const std::string& folder);

// Returns a line about the best step. `score` is checkpoint.save_best, `folder` has checkpoints.
std::string BestText(const std::string& score, const std::string& folder);

// Gives the model the weights of the best checkpoint in `folder`, and returns its step. Without an
// undamaged one, the model keeps its weights, of `last_step`, which is returned.
int64_t LoadBest(const std::string& folder,
                 int64_t last_step,
                 Model& model,
                 const Observers& observers);

}  // namespace ddprun::trainer

// The best state of a run (checkpoint.save_best), at the run's end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Returns the checkpoint with the best score, or nullopt if none has a score. `stored`: of one run,
// in the order of their steps.
std::optional<StoredCheckpoint> BestOf(std::span<const StoredCheckpoint> stored);

// Returns a line about the best step. `score` is checkpoint.save_best, `folder` has checkpoints.
std::string BestText(const std::string& score, const std::string& folder);

// Gives the model the weights of the best checkpoint in `folder`, and returns its step. Without an
// undamaged one, the model keeps its weights, of `last_step`, which is returned.
int64_t LoadBest(const std::string& folder,
                 int64_t last_step,
                 Model& model,
                 const Observers& observers);

}  // namespace ddprun::trainer

// How this process computes: who multiplies matrices, and in which type.
#pragma once

#include <cstdint>
#include <string>

#include "base/env.h"
#include "trainer/config/training_config.h"

namespace ddprun::trainer {

// What float32 means on GPUs: TF32 where training.tf32 wants it, never by itself. Of the process;
// before it trains on any.
void SetUpDevices(const TrainingConfig& training);

// Chooses the matrix engine of the process as training.matmul_engine says, and returns what to tell
// the user about it: one line, empty when there is nothing to choose. With "auto" a model of few
// parameters stays with LibTorch's default, unmeasured. Throws Failure for an engine that is not to
// be had here (HasOneDnn).
std::string SetUpCompute(const TrainingConfig& training,
                         int64_t parameters,
                         const Environment& environment);

// For a run that goes on, after SetUpCompute: with "auto" the engine of its steps so far, as
// another one has other bits. `run`: Checkpoint::run(); of an old one, that names none, nothing
// changes. Returns a line to warn with where that is not what would be chosen here, or "".
std::string KeepEngine(const TrainingConfig& training, const std::string& run);

}  // namespace ddprun::trainer

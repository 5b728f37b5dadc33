// The job and the model of a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/config.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// Returns the config of the run that saved the checkpoint. Throws Failure if there is none.
Config ConfigOf(const Checkpoint& checkpoint, const Environment& environment);

// Returns a tensor of the model. Ranks that train apart have saved a tensor each; they are equal,
// except for buffers, so this returns rank 0's. `dimensions`: of the tensor of one rank.
at::Tensor ReadModel(const Checkpoint& checkpoint, const std::string& name, int64_t dimensions);

// Fills a whole model, whichever strategy has saved it.
void LoadModel(const Checkpoint& checkpoint, Model& model);

}  // namespace ddprun::trainer

// The job and the model of a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/config.h"
#include "trainer/job/job.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// Returns the config of the run that saved the checkpoint. Throws Failure if there is none.
Config ConfigOf(const Checkpoint& checkpoint, const Environment& environment);

// Opens the config, the model and the description of the training data, without the weights. The
// files of the training data are needed only if the checkpoint lacks the description. Throws
// Failure.
Job OpenSavedJob(const Checkpoint& checkpoint, const Environment& environment);

// Makes the model of such a job, with the weights of the checkpoint.
std::shared_ptr<Model> OpenSavedModel(const Checkpoint& checkpoint, const Job& job);

// Returns a tensor of the model. Ranks that train apart have saved a tensor each; they are equal,
// except for buffers, so this returns rank 0's. `dimensions`: of the tensor of one rank.
at::Tensor ReadModel(const Checkpoint& checkpoint, const std::string& name, int64_t dimensions);

// Fills a whole model, whichever strategy has saved it.
void LoadModel(const Checkpoint& checkpoint, Model& model);

}  // namespace ddprun::trainer

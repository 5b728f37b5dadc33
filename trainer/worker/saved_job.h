// The job and the model of a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
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

// A job whose model is to be used on further files (OpenFurtherData()). Its training data has no
// samples.
struct SavedJob {
  Job job = {};
  std::string path = {};  // of the checkpoint, or of the folder of the model
  int64_t step = 0;       // of the weights; 0: not known
  // Returns the model with its weights on a device. Throws Failure.
  std::function<std::shared_ptr<Model>(const Job& job, c10::Device device)> load = {};
};

// Opens the config, the model and the description of the training data. The files of the training
// data are needed only if the checkpoint lacks the description. Throws Failure.
SavedJob OpenSavedJob(std::shared_ptr<const Checkpoint> checkpoint, const Environment& environment);

// Makes the model of the job on a device, without its weights.
std::shared_ptr<Model> EmptyModel(const Job& job, c10::Device device);

// Returns a tensor of the model. Ranks that train apart have saved a tensor each; they are equal,
// except for buffers, so this returns rank 0's. `dimensions`: of the tensor of one rank.
at::Tensor ReadModel(const Checkpoint& checkpoint, const std::string& name, int64_t dimensions);

// Fills a whole model, whichever strategy has saved it.
void LoadModel(const Checkpoint& checkpoint, Model& model);

}  // namespace ddprun::trainer

// Exports a checkpoint in other formats.
#pragma once

#include <optional>
#include <string>

#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// All functions hold one tensor in memory at a time, write all or nothing, and may throw Failure.

// Writes the checkpoint's model with SavePretrained(). Replaces an existing folder if it has only
// files of SavePretrained(). Returns the error of data that cannot be opened, so that names of
// classes may be missing. A plugin or TorchScript module must exist, and is in memory as a whole.
std::optional<Error> ExportFolder(const Checkpoint& checkpoint,
                                  const std::string& folder,
                                  const Environment& environment);

// Copies the model of a checkpoint, in this rank's memory as a whole, into `model`.
void LoadModel(const Checkpoint& checkpoint, Model& model);

enum class Exported {
  kModel,  // under the model's own names: "fc.weight"
  kAll,    // under the checkpoint's: "model.fc.weight", "optimizer.fc.weight.exp_avg", and numbers
};
// Writes a state dict like torch.save. Tied tensors share memory.
void ExportTorchFile(const Checkpoint& checkpoint, const std::string& path, Exported what);
// Writes a safetensors file. Tied tensors are stored once. Numbers become metadata.
void ExportSafetensors(const Checkpoint& checkpoint, const std::string& path, Exported what);

}  // namespace ddprun::trainer

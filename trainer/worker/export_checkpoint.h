// A checkpoint in the formats of others.
#pragma once

#include <optional>
#include <string>

#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ddprun::trainer {

// One tensor in memory at a time; what is written is there whole or not at all. All throw Failure.

// A folder as SavePretrained writes it, of the model that the checkpoint's run trained; one that is
// there is replaced if nothing is in it but what SavePretrained wrote. Returns
// what could not be opened of its config (the data), so that names of classes may be missing. A
// plugin or TorchScript module has to be there, and is in memory as a whole.
std::optional<Error> ExportFolder(const Checkpoint& checkpoint,
                                  const std::string& folder,
                                  const Environment& environment);

enum class Exported {
  kModel,  // under the model's own names: "fc.weight"
  kAll,    // under the checkpoint's: "model.fc.weight", "optimizer.fc.weight.exp_avg", and numbers
};
// A state dict as torch.save writes it. Tied tensors share their memory, as they did.
void ExportTorchFile(const Checkpoint& checkpoint, const std::string& path, Exported what);
// Tied tensors are stored once. Numbers become metadata.
void ExportSafetensors(const Checkpoint& checkpoint, const std::string& path, Exported what);

}  // namespace ddprun::trainer

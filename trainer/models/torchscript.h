// A model that was defined in Python: a file of torch.jit.script or torch.jit.trace. Its parameters
// and buffers are trained in place, without Python.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/models/model.h"

namespace ddprun::trainer {

struct TorchScriptOptions {
  static constexpr const char* kType = "torchscript";

  std::string path = {};

  bool operator==(const TorchScriptOptions&) const = default;
};

// Loads the model. The first argument of the module's forward gets the batch's inputs. Other
// arguments are recognized by name: attention_mask, token_type_ids, and targets or labels; any
// other must have a default. A forward with targets returns the mean loss, or a tuple (loss,
// outputs). A forward without targets returns the outputs, from which `loss` computes the loss.
//
// SaveFiles() writes model.pt for torch.jit.load. Throws Failure for a file that is not
// TorchScript, or whose forward cannot be called like this.
std::shared_ptr<Model> LoadTorchScript(const std::string& path,
                                       const LossOptions& loss,
                                       c10::Device device = at::kCPU);

// Returns notes for people before training: layers that tracing has left in one mode; a line each.
// Throws Failure.
std::vector<std::string> TorchScriptNotes(const std::string& path);

}  // namespace ddprun::trainer

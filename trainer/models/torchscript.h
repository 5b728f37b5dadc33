// A model that was defined in Python: a file of torch.jit.script or torch.jit.trace. Its parameters
// and buffers are trained in place; nothing of Python is needed.
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

// The first argument of the module's forward gets the batch's inputs. Others are known by name:
// attention_mask, token_type_ids, and targets or labels; any other must have a default. A forward
// that takes targets returns the mean loss, or a tuple (loss, outputs); one that does not returns
// the outputs, and `loss` says what is made of them.
//
// SaveFiles writes model.pt, which torch.jit.load reads. Throws Failure for a file that is no
// TorchScript or has a forward that cannot be called like this.
std::shared_ptr<Model> LoadTorchScript(const std::string& path,
                                       const LossOptions& loss,
                                       c10::Device device = at::kCPU);

// What a person should know before training the module of the file: layers that tracing has left in
// one mode; a line each. Throws Failure.
std::vector<std::string> TorchScriptNotes(const std::string& path);

}  // namespace ddprun::trainer

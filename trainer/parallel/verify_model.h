// Before training: do all ranks have the same model?
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/reducer.h"

namespace ddprun::trainer {

// A collective of the control group. Throws Failure on every rank when names, shapes, types, need
// of gradients or the order of the tensors differ between ranks; ranks that differ from rank 0 name
// the first difference.
void VerifySameModel(const std::vector<NamedParameter>& tensors, c10d::Backend& control);

// A collective. Copies the root's values into the tensors of all ranks.
void BroadcastFrom(int root, const std::vector<NamedParameter>& tensors, c10d::Backend& group);

}  // namespace ddprun::trainer

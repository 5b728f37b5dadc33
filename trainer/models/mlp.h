// Linear layers with an activation between them. Parameters are called layers.0.weight,
// layers.0.bias, layers.1.weight, ... with torch.nn.Linear's layout [out, in].
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/models/loss.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

struct MlpOptions {
  enum class Activation { kNone, kRelu, kGelu };

  std::vector<int64_t> sizes = {};            // input, hidden ..., output: at least two
  Activation activation = Activation::kRelu;  // not after the last layer
  LossOptions loss = {};
  // True: drawn from torch's default generator as torch.nn.Linear does, so that after the same
  // manual_seed the weights are those of a Python model that makes its layers in this order.
  // False: left as they come.
  bool initialize = true;
};

// Throws Failure for fewer than two sizes or one that is not positive.
std::shared_ptr<Model> MakeMlp(const MlpOptions& options);

}  // namespace ddprun::trainer

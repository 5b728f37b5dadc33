// Linear layers with an activation between them. Parameters are named layers.0.weight,
// layers.0.bias, layers.1.weight, ... with torch.nn.Linear's layout [out, in].
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/config/model_config.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

struct MlpOptions {
  static constexpr const char* kType = "mlp";

  std::vector<int64_t> sizes = {};            // input, hidden ..., output: at least two
  Activation activation = Activation::kRelu;  // not after the last layer

  bool operator==(const MlpOptions&) const = default;
};

// Makes the model. Initialize() draws like torch.nn.Linear: after the same manual_seed, the weights
// equal those of a Python model that makes its layers in this order. Throws Failure for fewer than
// two sizes or one that is not positive.
std::shared_ptr<Model> MakeMlp(const MlpOptions& options);

}  // namespace ddprun::trainer

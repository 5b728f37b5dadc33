// In which type the forward pass computes.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/config/training_config.h"

namespace ddprun::trainer {

// While it lives, what this thread computes on the CPU has that precision; kBf16: matrix products
// and convolutions in bfloat16 with float32 sums; norms, softmax and losses in float32, as
// LibTorch's autocast. Parameters, gradients and optimizer state stay float32. Put it around the
// forward pass and the loss; backward follows what forward did. Not nested.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  const Precision precision_;
};

// The type of the products inside the current scope.
at::ScalarType ComputeType();

// Whether this processor multiplies bfloat16 in hardware; without, kBf16 is slower than kFp32.
bool HasBf16Instructions();

}  // namespace ddprun::trainer

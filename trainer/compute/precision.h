// In which type the forward pass computes.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/config/training_config.h"

namespace ddprun::trainer {

// What a PrecisionScope has set for its thread.
struct ComputePrecision {
  at::ScalarType type = at::kFloat;  // of matrix products
  double loss_scale = 1;
};

// While it lives, the layers of this project compute on this thread with that precision, on any
// device by the same casts; kBf16: matrix products and convolutions in bfloat16 with float32 sums;
// norms, softmax of the loss and losses in float32; kFp16: the same in float16. Parameters,
// gradients and optimizer state stay float32. Put it around the forward pass and the loss; backward
// follows what forward did.
class PrecisionScope {
 public:
  // `loss_scale`: what the loss is multiplied by before backward. Losses that compute gradients
  // along with themselves need it, so that these do not underflow (LossScale()).
  explicit PrecisionScope(Precision precision, double loss_scale = 1);
  // As on another thread, or earlier.
  explicit PrecisionScope(const ComputePrecision& precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  const ComputePrecision before_;
};

ComputePrecision CurrentPrecision();
// The type of the products inside the current scope.
inline at::ScalarType ComputeType() {
  return CurrentPrecision().type;
}
// The same for a parameter of that type: in float32 a model computes in its own type.
inline at::ScalarType ComputeType(at::ScalarType of_parameter) {
  return ComputeType() == at::kFloat ? of_parameter : ComputeType();
}
inline double LossScale() {
  return CurrentPrecision().loss_scale;
}

// For modules that are not made of these layers: while it lives, LibTorch's autocast, with its own
// list of casts for the device, has what this thread computes there follow the PrecisionScope.
// Not nested.
class AutocastScope {
 public:
  explicit AutocastScope(c10::DeviceType device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const c10::DeviceType device_;
  const bool enabled_;
};

// Whether this processor multiplies bfloat16 in hardware; without, kBf16 is slower than kFp32.
bool HasBf16Instructions();

}  // namespace ddprun::trainer

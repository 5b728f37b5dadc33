// The type in which the forward pass computes.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/config/training_config.h"

namespace ddprun::trainer {

// The settings of a PrecisionScope for its thread.
struct ComputePrecision {
  at::ScalarType type = at::kFloat;  // of matrix products
  double loss_scale = 1;
};

// While it lives, this project's layers compute on this thread with `precision`, on any device.
// kBf16 (kFp16) means matrix products and convolutions in bfloat16 (float16) with float32 sums;
// norms, softmax of the loss, losses, parameters, gradients and optimizer state stay float32. It
// encloses the forward pass and the loss; backward follows them.
class PrecisionScope {
 public:
  // `loss_scale` is the loss's factor before backward. Losses that compute their gradients in
  // forward multiply by LossScale(), so that these do not underflow.
  explicit PrecisionScope(Precision precision, double loss_scale = 1);
  // Sets the precision of another thread or an earlier time.
  explicit PrecisionScope(const ComputePrecision& precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  const ComputePrecision before_;
};

ComputePrecision CurrentPrecision();
// Returns the type of products in the current scope.
inline at::ScalarType ComputeType() {
  return CurrentPrecision().type;
}
// Returns ComputeType(), or the parameter's type if ComputeType() is float32.
inline at::ScalarType ComputeType(at::ScalarType of_parameter) {
  return ComputeType() == at::kFloat ? of_parameter : ComputeType();
}
inline double LossScale() {
  return CurrentPrecision().loss_scale;
}

// While it lives, LibTorch's autocast for `device` follows the PrecisionScope of this thread. For
// modules that do not use this project's layers. Not nested.
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

// Returns whether this processor multiplies bfloat16. If not, kBf16 is slower than kFp32.
bool HasBf16Instructions();

}  // namespace ddprun::trainer

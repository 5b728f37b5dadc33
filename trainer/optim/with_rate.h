// The learning rate of a step, for operations of ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include <ddprun/device_scalar.h>

namespace ddprun::trainer {

// Calls `step` with a number, or with the float32 scalar from which the device's kernels read it.
template <typename Step>
void WithRate(const DeviceScalar& rate, const Step& step) {
  if (!rate.on_device().defined()) return step(static_cast<double>(rate));
  step(rate.on_device().to(at::kFloat));
}

}  // namespace ddprun::trainer

// A number that may still be on its way from a device.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

// A number that the host has, or that a device may still be computing.
class DeviceScalar {
 public:
  DeviceScalar(double value = 0) : value_(value) {}
  // `value` has one element. It is read at once on the CPU; on a device, when it is asked for.
  explicit DeviceScalar(const at::Tensor& value);

  // Waits for the device.
  operator double() const;
  // Returns a float64 scalar, undefined if the host has the number.
  const at::Tensor& on_device() const { return on_device_; }

  DeviceScalar operator*(double factor) const;
  DeviceScalar& operator+=(const DeviceScalar& other);

 private:
  double value_ = 0;
  at::Tensor on_device_;
};

}  // namespace ddprun

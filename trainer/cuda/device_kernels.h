// The kernels of kernels.cu, compiled for a device when the process starts.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "trainer/compute/device_kernels.h"

namespace ddprun::trainer {

// Compiles the kernels for products of `type` with NVRTC, which takes a third of a second. Returns
// nullptr and says why if there is no NVRTC, or if it or the driver refuses.
std::shared_ptr<DeviceKernels> MakeDeviceKernels(c10::Device device,
                                                 at::ScalarType type,
                                                 std::string& why);

}  // namespace ddprun::trainer

#include "trainer/compute/device_kernels.h"

#include <utility>

namespace ddprun::trainer {

namespace {

// Set before other threads compute, and not changed while they do.
std::shared_ptr<DeviceKernels> in_use;

}  // namespace

void UseDeviceKernels(std::shared_ptr<DeviceKernels> kernels) {
  in_use = std::move(kernels);
}

DeviceKernels* KernelsFor(const at::Tensor& tensor, at::ScalarType type) {
  const bool fits = in_use != nullptr && in_use->type() == type &&
                    in_use->device_type() == tensor.device().type();
  return fits ? in_use.get() : nullptr;
}

}  // namespace ddprun::trainer

// The devices' memory: one file mapped twice. Tensors point into a mapping that nobody may read or
// write, kernels use the other one, so a host that touches a tensor's data ends by SIGSEGV.
#pragma once

#include <cstddef>

namespace ddprun::simulated {

inline constexpr int kDevices = 4;
// Address space; memory is taken where it is touched.
inline constexpr size_t kDeviceBytes = size_t{4} << 30;

// Where tensors of a device point to.
std::byte* MemoryOf(int device);
// Memory of the host that copies reach by themselves. Mapped twice as well, so that the host can be
// kept from it while kernels are at it.
std::byte* PinnedMemory();

// The device of an address, or -1.
int DeviceOf(const void* address);
bool IsPinned(const void* address);
// The same memory for kernels; of the devices and of the host alike.
void* ForKernels(const void* address);

}  // namespace ddprun::simulated

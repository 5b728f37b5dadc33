// The devices' memory: a file that is mapped twice. Tensors point to a mapping without access
// rights and kernels use the other one, so a host that touches a tensor's data gets SIGSEGV.
#pragma once

#include <cstddef>

namespace ddprun::simulated {

inline constexpr int kDevices = 4;
// Address space; pages get memory when they are touched.
inline constexpr size_t kDeviceBytes = size_t{4} << 30;

// Returns the mapping to which a device's tensors point.
std::byte* MemoryOf(int device);
// Returns pinned memory of the host. It is mapped twice, too, so that the host loses access while
// kernels use it.
std::byte* PinnedMemory();

// Returns the device of an address, or -1.
int DeviceOf(const void* address);
bool IsPinned(const void* address);
// Returns the address that kernels use for device or pinned memory.
void* ForKernels(const void* address);

}  // namespace ddprun::simulated

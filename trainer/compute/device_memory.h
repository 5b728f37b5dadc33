// What a device's allocator has given out.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace ddprun::trainer {

// Bytes; < 0: the device is the CPU, whose memory is the process' own.
struct DeviceMemoryPeak {
  int64_t allocated = -1;  // to tensors
  int64_t reserved = -1;   // from the device, with what the allocator keeps for later tensors
};

// The most since the last call, or since the process began: what torch.cuda.max_memory_allocated
// and max_memory_reserved say, which begin anew. Does not wait for the device. Any thread.
DeviceMemoryPeak TakeMemoryPeak(c10::Device device);

}  // namespace ddprun::trainer

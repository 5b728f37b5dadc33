// The caching allocator of device memory, and the uses of its blocks.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/trainer/device/stream.h"

namespace ddprun::simulated {

// An operation's use of a part of a block.
struct Access {
  Use use;
  QueuedPtr by;
};

// A piece of memory. Its owners, one after the other, use the same stream.
struct Block {
  std::byte* begin = nullptr;
  size_t size = 0;
  size_t requested = 0;
  size_t stream = 0;
  uint64_t pool = 0;   // of a graph; 0 means the common pool
  uint64_t owner = 0;  // the owner's number
  bool in_use = false;
  std::vector<Access> accesses = {};
  std::set<size_t> other_streams = {};  // by record_stream
  Queued taken_by = {};
  Queued freed_by = {};
};

c10::DeviceAllocator& TheAllocator();
// Returns the block of an address, in use or not, or nullptr. REQUIRES: BookLock().
Block* BlockAt(const std::byte* address);
// Moves a graph's memory to the common pool. Waits for the device, but not as a wait of the host.
void ReleasePool(int device, uint64_t pool);

// Sets a device's memory in bytes; the default and maximum is kDeviceBytes.
void SetMemoryLimit(int device, size_t bytes);
struct MemoryUse {
  size_t in_use = 0;
  size_t cached = 0;
  size_t peak = 0;  // of in_use
};
MemoryUse MemoryUseOf(int device);

}  // namespace ddprun::simulated

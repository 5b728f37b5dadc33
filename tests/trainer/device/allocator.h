// The caching allocator of device memory, and what its blocks are used for.
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

// A piece of memory that one owner after the other has, all on the same stream.
struct Block {
  std::byte* begin = nullptr;
  size_t size = 0;
  size_t requested = 0;
  size_t stream = 0;
  uint64_t pool = 0;   // of a graph, 0: of everyone
  uint64_t owner = 0;  // a number of each
  bool in_use = false;
  std::vector<Access> accesses = {};
  std::set<size_t> other_streams = {};  // by record_stream
  Queued taken_by = {};
  Queued freed_by = {};
};

c10::DeviceAllocator& TheAllocator();
// The block that an address lies in, in use or not, or nullptr. Under BookLock().
Block* BlockAt(const std::byte* address);
// What a graph has used is everyone's again. Waits for the device, which the host is not said to.
void ReleasePool(int device, uint64_t pool);

// Of a device, in bytes; at most and by default kDeviceBytes.
void SetMemoryLimit(int device, size_t bytes);
struct MemoryUse {
  size_t in_use = 0;
  size_t cached = 0;
  size_t peak = 0;  // of in_use
};
MemoryUse MemoryUseOf(int device);

}  // namespace ddprun::simulated

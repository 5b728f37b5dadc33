// Pinned memory of the host: its allocator, and copies for which the host has not waited yet. Until
// it has, it gets SIGSEGV if it reads what a copy writes, or writes what a copy reads.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "base/pinned_memory.h"
#include "tests/trainer/device/stream.h"

namespace ddprun::simulated {

at::HostAllocator& TheHostAllocator();
// Returns CudaModule::pinned of the simulated devices, which uses the same allocator.
ddprun::PinnedMemory LargePinnedMemory();
// Returns the bytes of all allocations, as they were requested.
size_t PinnedBytes();

// Notes that `copy` was queued and uses pinned memory; `done` is set when it has run. Protects
// whole pages, but not pages of which the copy uses only a part of an allocation.
void AddPending(const QueuedPtr& copy, const Use& use, SignalPtr done);
// Notes that the host has waited for the device. REQUIRES: BookLock().
void ReleasePending(int device);
// Returns the number of the allocation at an address; 0 means none. REQUIRES: BookLock().
uint64_t PinnedOwner(const std::byte* address);
// Returns text for the message of a fault.
const char* PendingCopyAt(const void* address);

}  // namespace ddprun::simulated

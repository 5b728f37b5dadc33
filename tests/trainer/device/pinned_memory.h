// Pinned memory of the host: an allocator, and the copies that the host has not waited for. Until
// it has, it may not read what a copy writes, nor write what a copy reads: SIGSEGV.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "base/pinned_memory.h"
#include "tests/trainer/device/stream.h"

namespace ddprun::simulated {

at::HostAllocator& TheHostAllocator();
// What a device's module has for memory that is large; of the same allocator.
ddprun::PinnedMemory LargePinnedMemory();
// That are allocated, as they were asked for.
size_t PinnedBytes();

// `copy` was queued and uses pinned memory; `done` is set when it has run. Pages are protected as a
// whole; not those of which the copy uses a part of an allocation only.
void AddPending(const QueuedPtr& copy, const Use& use, SignalPtr done);
// The host of the device has waited. Under BookLock().
void ReleasePending(int device);
// Who has allocated the memory at an address, as a number of its own; 0: nobody. Under BookLock().
uint64_t PinnedOwner(const std::byte* address);
// For the message of a fault.
const char* PendingCopyAt(const void* address);

}  // namespace ddprun::simulated

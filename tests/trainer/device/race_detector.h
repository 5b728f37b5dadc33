// Which operations touch the same memory with nothing that puts one before the other. Judged when
// work is queued, by VectorClocks, so that a race is found in every run.
#pragma once

#include <vector>

#include "tests/trainer/device/allocator.h"

namespace ddprun::simulated {

// All under BookLock(). They throw DeviceError, which names both operations, streams and places.

// Remembers what `queued` does; `clock` is its stream's.
void CheckUses(const QueuedPtr& queued, const VectorClock& clock, const std::vector<Use>& uses);
// A block whose owner has freed it may now be given to a new one on its stream.
void CheckReuse(Block& block, const VectorClock& clock);

}  // namespace ddprun::simulated

// Finds operations that use the same memory without an order between them. Checks when work is
// queued, by VectorClocks, so that it finds a race in each run.
#pragma once

#include <vector>

#include "tests/trainer/device/allocator.h"

namespace ddprun::simulated {

// REQUIRES: BookLock(). They throw a DeviceError that names both operations, streams and places.

// Checks and records the uses of `queued`; `clock` is its stream's clock.
void CheckUses(const QueuedPtr& queued, const VectorClock& clock, const std::vector<Use>& uses);
// Checks that a freed block may be given to a new owner on its stream.
void CheckReuse(Block& block, const VectorClock& clock);

}  // namespace ddprun::simulated

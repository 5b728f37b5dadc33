// Waits until the ranks of a node have read each other's data of an operation.
#pragma once

#include <functional>

#include "trainer/comm/node_meeting.h"

namespace ddprun::trainer {

// Records that this rank has finished reading the other ranks' data of the running operation.
void EndReading(NodeMeeting& node);
// Returns whether all ranks of the node have called EndReading() for the last operation, so that
// its memory may be freed. Waits up to 1 s for them, and calls `meanwhile` repeatedly. Returns
// false at once if this rank's operation has failed.
bool WaitForReaders(NodeMeeting& node, const std::function<void()>& meanwhile);

}  // namespace ddprun::trainer

// The state of a run, from a rank that has it to others.
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/comm/host_process_group.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Collectives: all that `owners` name on one rank becomes that of others, straight from its memory
// into theirs; by way of the host where it is on a device. All have the same names. Throw Failure.

// From rank `giver` to the ranks that say they take it; the others have it, and keep it.
void CopyState(HostProcessGroup& group, int giver, bool takes, const VisitState& owners);
// From the group's rank 0 to all others, on any nodes.
void BroadcastState(c10d::Backend& group, const VisitState& owners);

// Names a text as a number and a tensor, for these.
void VisitText(StateVisitor& visitor, const std::string& name, std::string& text);

}  // namespace ddprun::trainer

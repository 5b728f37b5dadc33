// Copies the state of a run from one rank to others.
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/comm/host_process_group.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Both functions are collectives. They copy all state that `owners` names directly from one rank's
// memory to the others', or through the host if it is on a device, except for flat parts
// of tensors, of which each rank has its own. All ranks must name the same state otherwise. Both
// throw Failure.

// Copies from rank `giver` to the ranks with `takes`. The other ranks keep their state.
void CopyState(HostProcessGroup& group, int giver, bool takes, const VisitState& owners);
// Copies from the group's rank 0 to all other ranks, also on other nodes.
void BroadcastState(c10d::Backend& group, const VisitState& owners);

// Names a text as a number and a tensor, for the two functions above.
void VisitText(StateVisitor& visitor, const std::string& name, std::string& text);

}  // namespace ddprun::trainer

// The state of a run, from a rank that has it to one that takes the place of a lost one.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// A collective: all that `owners` name on the group's rank 0 becomes that of the others, straight
// from its memory into theirs. Throws Failure.
void CopyState(c10d::Backend& group, const VisitState& owners);

}  // namespace ddprun::trainer

// What a rank knows of itself among ranks that may be lost and replaced (recovery.cc).
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/loop/step_boundary.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

class HostProcessGroup;

struct Recovery {
  HostProcessGroup* group = nullptr;  // of the mesh, where lost ranks are replaced
  bool joined = false;                // in the place of a lost rank
  bool has_state = true;              // of the run
  bool proven = false;                // has been through a part with the others
  bool leaving = false;               // soon nobody waits for the others any more
  bool evaluating = false;
  int64_t settled = 0;         // the generation in which the last part was done
  int64_t lost_save = 0;       // the step whose save may lack the part of a lost rank
  std::optional<Votes> votes;  // of the last step
  EvalReport evaluation;       // the last one
};

}  // namespace ddprun::trainer

// The signals by which launchers, schedulers and people ask a program to end well.
#pragma once

#include "base/env.h"

namespace ddprun {

// From now on SIGTERM, SIGUSR1, SIGUSR2 and SIGINT, as far as they are not ignored, are noted and
// do nothing else; also those that came while they were blocked. One that comes half a second or
// more after the first ends the process as it would have, but not under ddprun, which has a
// patience of its own, nor under SLURM, which sends several.
void NoteStopSignals(const Environment& environment);
// The first that came; 0: none. Any thread.
int NotedStopSignal();
// Since it came; 0 where there is none.
double SecondsSinceStopSignal();
// The same signals wait until NoteStopSignals: before a fork whose child is to take them.
void BlockStopSignals();

}  // namespace ddprun

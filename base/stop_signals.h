// The signals by which launchers, schedulers and users ask a program to save and end.
#pragma once

#include <signal.h>

#include "base/env.h"

namespace ddprun {

// By this signal ddprun asks workers of ddp-trainer to save and end because nodes have come or
// gone: the job goes on with the nodes that it has then. Nobody else sends it to such a process,
// and nohup does not ignore it.
inline constexpr int kRejoinSignal = SIGPWR;

// From now on SIGTERM, SIGUSR1, SIGUSR2, SIGINT and kRejoinSignal are only noted, except those that
// are ignored. A thread of its own notes them; the calling thread, and those that it starts, block
// them. So call it before threads are started: a handler on a thread that runs a kernel of oneDNN
// would destroy the heap. A further one ends the process if it comes half a second or more after
// the first. But not under ddprun, which kills after a time limit, and not under SLURM, which sends
// several.
void NoteStopSignals(const Environment& environment);
// Returns the first signal that came, but any other signal outweighs kRejoinSignal; 0 means none.
// Any thread.
int NotedStopSignal();
// Returns the seconds since NotedStopSignal() came; 0 if there is none.
double SecondsSinceStopSignal();
// Blocks these signals on the calling thread: called before a fork whose child notes them.
void BlockStopSignals();

}  // namespace ddprun

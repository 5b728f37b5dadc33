// Where a process is when it is ended with SIGABRT, for a job that hangs.
#pragma once

namespace ddprun {

// From now on SIGABRT prints the stack of the thread that takes it, usually the first one, on
// standard error; then it ends the process as before. Call it once, before there are threads that
// might get the signal.
void PrintStackOnAbort();

}  // namespace ddprun

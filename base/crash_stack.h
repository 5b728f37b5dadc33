// Where a process is when a signal ends it: one that crashes, or is ended because it hangs.
#pragma once

namespace ddprun {

// From now on SIGABRT, SIGBUS, SIGFPE, SIGILL and SIGSEGV print the stack of the thread that takes
// the signal on standard error; then it ends the process as before. One that somebody handles
// already is left to them. Call it once, before there are threads that might get a signal.
void PrintStackOnCrash();

}  // namespace ddprun

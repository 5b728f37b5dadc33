// Where a process is when a signal ends it: one that crashes, or is ended because it hangs.
#pragma once

#include <string_view>

namespace ddprun {

// From now on SIGABRT, SIGBUS, SIGFPE, SIGILL and SIGSEGV print the stack of the thread that takes
// the signal on standard error; then it ends the process as before. One that somebody handles
// already is left to them. Call it before there are threads that might get a signal; further calls
// do nothing.
void PrintStackOnCrash();

// What the stack is said to be of from now on: "rank 3" instead of "this process". At most 40
// characters.
void NameInStacks(std::string_view name);

}  // namespace ddprun

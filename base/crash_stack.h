// Prints the stack of a thread when a signal ends its process.
#pragma once

namespace ddprun {

// Writes the calling thread's stack to standard error: addresses and files, then the functions'
// names, which a child process finds: after an exception from where it was thrown, and of functions
// of LibTorch that follow each other two. `title` has at most 100 characters. Async-signal-safe, if
// the process has called backtrace() once before, because its first call loads a library.
void WriteStack(const char* title);

}  // namespace ddprun

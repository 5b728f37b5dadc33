// Prints the stack of a thread when a signal ends its process.
#pragma once

namespace ddprun {

// Writes the calling thread's stack to standard error: addresses and files, then the functions'
// names, which a child process finds. The names of an exception's stack begin with the function
// that threw it. Among functions of LibTorch that follow each other, only two are named. `title`
// has at most 100 characters. Async-signal-safe, if the process has called backtrace() once before,
// because its first call loads a library.
void WriteStack(const char* title);

}  // namespace ddprun

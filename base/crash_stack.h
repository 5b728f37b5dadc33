// The stack of a thread whose process a signal ends.
#pragma once

namespace ddprun {

// Writes it on standard error under `title`, of at most 100 characters: first the addresses and the
// file of each, then the functions, as far as they are known, by another process. Calls only what
// may be called in a signal handler; backtrace() is, once it has been called.
void WriteStack(const char* title);

}  // namespace ddprun

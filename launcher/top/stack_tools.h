// Programs that print the stacks of a running process and let it go on.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/env.h"

namespace ddprun::launcher {

// Returns the stacks of all threads of the process: by py-spy if it is a Python program, else by
// gdb or eu-stack, whichever is found first in PATH or, for py-spy, beside the Python. They stop
// the process for the time in which they read, up to some seconds for a program with much to look
// up. If none is there or may read the process, returns a line about each thread from /proc and
// says why.
std::string ReadStacks(pid_t pid, const Environment& env);

}  // namespace ddprun::launcher

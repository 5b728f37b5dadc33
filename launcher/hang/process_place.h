// What /proc says about workers that do not move.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <span>

#include "launcher/hang/standing.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

// Reading another process's system call needs the right to trace it, which an ancestor has.
ProcessPlace LookAt(pid_t pid);

// CPU time of each worker with all its descendants, by the worker's pid; those that have ended are
// left out. Reads the whole process table once.
std::map<pid_t, std::chrono::milliseconds> CpuTimes(std::span<const LocalWorker> workers);

}  // namespace ddprun::launcher

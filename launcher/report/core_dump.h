// Where the memory image of a killed worker is, or why there is none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "launcher/process/process.h"

namespace ddprun::launcher {

// This machine's way with core dumps.
struct CorePolicy {
  std::string pattern = {};  // /proc/sys/kernel/core_pattern without its line end
  bool uses_pid = false;     // /proc/sys/kernel/core_uses_pid
  uint64_t limit_bytes = 0;  // RLIMIT_CORE of this process, which workers inherit
  std::string folder = {};   // working directory of this process, which workers inherit
  std::string host = {};
};

// Pure. A hint of one line without its full stop, empty for an exit that makes no core.
std::string ExplainCoreDump(const Signaled& exit, pid_t pid, const CorePolicy& policy);

CorePolicy ReadCorePolicy();

}  // namespace ddprun::launcher

// What this machine knows about why workers ended, beyond their exit status: what the kernel
// ended for want of memory, where the memory image of a killed one is, or why there is none, and
// how the GPU is that it computed on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/nvidia_driver.h"
#include "base/result.h"
#include "launcher/process/process.h"
#include "launcher/report/out_of_memory.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Make one before workers start; ask it once they have ended. Reads a few files of /proc and /sys.
class Evidence {
 public:
  // Fills in `out_of_memory` and `core_dump` of those that have ended badly.
  void Add(std::vector<WorkerRecord>& workers);
  // `gpu` of those of them that computed on one and were not told to stop. Asks the driver, which
  // may take its time with a GPU that has failed.
  static void AddGpus(std::vector<WorkerRecord>& workers);

 private:
  MemoryWatch memory_;
};

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

// Pure. What the driver says of the GPU with that PCI address: a line without its full stop.
std::string ExplainGpu(const std::string& bus_id, const Result<NvidiaDriver>& driver);

}  // namespace ddprun::launcher

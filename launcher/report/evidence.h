// The facts that this machine knows about why workers ended, beyond their exit status: whether the
// kernel killed them because memory ran out, where their core dumps are, and the state of their
// GPUs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/nvidia_driver.h"
#include "base/result.h"
#include "launcher/process/process_exit.h"
#include "launcher/report/out_of_memory.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Made before workers start, asked after they have ended. Reads a few files of /proc and /sys.
class Evidence {
 public:
  // Fills in `out_of_memory` and `core_dump` of workers that have failed.
  void Add(std::vector<WorkerRecord>& workers);
  // Fills in `gpu` of workers that computed on a GPU, failed, and were not told to stop. Asks the
  // driver, which may be slow if a GPU has failed.
  static void AddGpus(std::vector<WorkerRecord>& workers);

 private:
  MemoryWatch memory_;
};

// How this machine writes core dumps.
struct CorePolicy {
  std::string pattern = {};  // /proc/sys/kernel/core_pattern, without newline
  bool uses_pid = false;     // /proc/sys/kernel/core_uses_pid
  uint64_t limit_bytes = 0;  // RLIMIT_CORE of this process, which workers inherit
  std::string folder = {};   // working directory of this process, which workers inherit
  std::string host = {};
};

// Pure. Returns a hint of one line, without full stop; "" if the signal makes no core dump.
std::string ExplainCoreDump(const Signaled& exit, pid_t pid, const CorePolicy& policy);

CorePolicy ReadCorePolicy();

// Pure. Returns one line, without full stop: what the driver says of the GPU at this PCI address.
std::string ExplainGpu(const std::string& bus_id, const Result<NvidiaDriver>& driver);

}  // namespace ddprun::launcher

// Finds out whether a worker ended because memory ran out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cgroup_memory.h"
#include "launcher/report/kernel_log.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// The events that the kernel counted and logged between the start and the end of an attempt.
struct MemoryEvidence {
  std::vector<KernelKill> kills = {};       // from the kernel's log
  int64_t cgroup_kills = 0;                 // kills in the workers' cgroup
  std::optional<int64_t> limit_bytes = {};  // of that cgroup
};

// Pure. Returns nullopt if there is no evidence. If the cgroup had kills but SIGKILL did not end
// this worker, `what` says that the kernel may have killed a child of it.
std::optional<OutOfMemory> ExplainOutOfMemory(const WorkerRecord& worker,
                                              const MemoryEvidence& evidence);

class MemoryWatch {
 public:
  MemoryWatch() : before_(ReadCgroupMemory()) {}
  // Returns the evidence since the constructor.
  MemoryEvidence ReadEvidence();

 private:
  std::optional<CgroupMemory> before_;
  KernelLog log_;
  std::vector<KernelKill> kills_;
};

}  // namespace ddprun::launcher

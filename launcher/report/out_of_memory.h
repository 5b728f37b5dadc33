// Whether a worker ended because memory ran out: evidence, not guesses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cgroup_memory.h"
#include "launcher/report/kernel_log.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// What was found out between the start and the end of an attempt.
struct MemoryEvidence {
  std::vector<KernelKill> kills = {};       // from the kernel's log
  int64_t cgroup_kills = 0;                 // more than before, in the workers' cgroup
  std::optional<int64_t> limit_bytes = {};  // of that cgroup
};

// Pure. nullopt when nothing speaks for it. A worker that ended otherwise than by SIGKILL may have
// lost a child: then `what` says so.
std::optional<OutOfMemory> ExplainOutOfMemory(const WorkerRecord& worker,
                                              const MemoryEvidence& evidence);

// Looks when it is made, and again whenever asked.
class MemoryWatch {
 public:
  MemoryWatch() : before_(ReadCgroupMemory()) {}
  // Since it was made.
  MemoryEvidence Look();

 private:
  std::optional<CgroupMemory> before_;
  KernelLog log_;
  std::vector<KernelKill> kills_;
};

}  // namespace ddprun::launcher

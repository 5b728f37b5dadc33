// What this machine knows about why workers ended, beyond their exit status.
#pragma once

#include <vector>

#include "launcher/report/out_of_memory.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Make one before workers start; ask it once they have ended. Reads a few files of /proc and /sys.
class Evidence {
 public:
  // Fills in `out_of_memory` and `core_dump` of those that have ended badly.
  void Add(std::vector<WorkerRecord>& workers);

 private:
  MemoryWatch memory_;
};

}  // namespace ddprun::launcher

#include "launcher/report/evidence.h"

#include "launcher/report/core_dump.h"

namespace ddprun::launcher {

void Evidence::Add(std::vector<WorkerRecord>& workers) {
  const MemoryEvidence memory = memory_.Look();
  const CorePolicy core = ReadCorePolicy();
  for (WorkerRecord& worker : workers) {
    if (!worker.exit || ExitCode(*worker.exit) == 0) continue;
    worker.out_of_memory = ExplainOutOfMemory(worker, memory);
    if (const auto* signaled = std::get_if<Signaled>(&*worker.exit)) {
      worker.core_dump = ExplainCoreDump(*signaled, worker.pid, core);
    }
  }
}

}  // namespace ddprun::launcher

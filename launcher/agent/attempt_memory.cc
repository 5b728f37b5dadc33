#include "launcher/agent/attempt_memory.h"

#include "base/sealed_memory.h"

namespace ddprun::launcher {

Result<AttemptMemory> AttemptMemory::Create(int workers) {
  AttemptMemory memory;
  DDPRUN_ASSIGN(memory.node, CreateNodeMemory());
  DDPRUN_ASSIGN(memory.recorder, CreateFlightRecorderFile(workers));
  DDPRUN_ASSIGN(memory.flight, FlightReader::Open(memory.recorder, workers));
  return memory;
}

}  // namespace ddprun::launcher

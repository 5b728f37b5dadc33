// Signals and run.max_time ask a run to stop before its last step.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/env.h"
#include "trainer/config/training_config.h"
#include "trainer/loop/step_boundary.h"

namespace ddprun::trainer {

// A later reason outweighs an earlier reason.
enum class StopReason : uint8_t { kNone, kTime, kSignal, kInterrupt };

// Returns the exit status of a rank that has stopped: kStoppedStatus, or 128 + SIGINT.
int StopStatus(StopReason reason);
// Returns "SIGTERM", "Ctrl-C (SIGINT)", "run.max_time is over", or if only another rank has got the
// signal, "a signal to another rank".
std::string TextOf(StopReason reason);

// The stop requests to this process. One thread.
class StopRequest {
 public:
  // run.max_time counts from the job's start, if the launcher gives it, by a clock that never
  // jumps.
  StopRequest(const RunConfig& config, const Environment& environment);

  StopReason reason() const;
  // Returns the grace of TORCH_ELASTIC_SHUTDOWN_TIMEOUT, counted from a signal to this process.
  StopGrace grace() const;

 private:
  std::chrono::steady_clock::time_point end_;
  StopGrace grace_;
};

}  // namespace ddprun::trainer

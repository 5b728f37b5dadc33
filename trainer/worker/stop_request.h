// Who asks for the end of a run before its last step: signals, and run.max_time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/env.h"
#include "trainer/config/training_config.h"
#include "trainer/loop/step_boundary.h"

namespace ddprun::trainer {

// Each counts for more than those before it.
enum class StopReason : uint8_t { kNone, kTime, kSignal, kInterrupt };

// The exit status of a rank that has stopped for it: kStoppedStatus, or 128 + SIGINT.
int StopStatus(StopReason reason);
// "SIGTERM", "Ctrl-C (SIGINT)", "run.max_time is over"; of a signal that another rank has got: "a
// signal to another rank".
std::string TextOf(StopReason reason);

// What this process knows. One thread.
class StopRequest {
 public:
  // The time counts from the job's start, if the launcher says when that was, by a clock that never
  // jumps.
  StopRequest(const RunConfig& config, const Environment& environment);

  StopReason reason() const;
  // As the launcher or the user says (TORCH_ELASTIC_SHUTDOWN_TIMEOUT); of a signal to this process.
  StopGrace grace() const;

 private:
  std::chrono::steady_clock::time_point end_;
  StopGrace grace_;
};

}  // namespace ddprun::trainer

// Pure: when a node's workers hang. A worker moves when
//  - its flight recorder shows it: a step, a phase, a collective that begins or ends. In training
//    that alone counts, and so it does within a collective, where a rank that waits may spin;
//  - else, when it uses some CPU time or prints something: while it loads or compiles, while
//    weights are saved, and for every worker without a flight recorder.
// The workers hang when none of them has moved for the whole timeout.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "base/flight_reader.h"

namespace ddprun::launcher {

struct WorkerSample {
  pid_t pid = 0;
  std::optional<FlightSnapshot> flight = {};
  std::chrono::milliseconds cpu_time{0};  // of the worker and all its descendants so far
  uint64_t output_bytes = 0;              // bytes that the worker has printed so far
};

class HangState {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Samples are expected every `interval`. A longer pause counts as two intervals only: it was this
  // program, or the whole machine, that stood still.
  HangState(std::chrono::milliseconds timeout, std::chrono::milliseconds interval)
      : timeout_(timeout), interval_(interval) {}

  // Takes a sample of all living workers. Returns true if they hang.
  bool Add(Time now, std::span<const WorkerSample> samples);

  // Return how long, at the last sample, no worker had moved, this worker had not moved, or this
  // worker had printed nothing.
  std::chrono::milliseconds still_for() const;
  std::chrono::milliseconds StillFor(pid_t pid) const;
  std::chrono::milliseconds SilentFor(pid_t pid) const;

 private:
  // Time in which samples were taken, without the gaps.
  using Watched = std::chrono::milliseconds;
  struct Known {
    WorkerSample sample;
    Watched moved{0};
    Watched printed{0};
  };

  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds interval_;
  std::optional<Time> last_sample_;
  Watched now_{0};
  Watched anything_moved_{0};
  std::map<pid_t, Known> workers_;
};

// Returns whether the worker has moved between two samples; `elapsed` is the time between them.
bool HasMoved(const WorkerSample& before,
              const WorkerSample& after,
              std::chrono::milliseconds elapsed);

}  // namespace ddprun::launcher

// Pure. Decides whether a node's workers hang: none has moved for the timeout. A worker moves if
//  - its flight recorder shows a new step or phase, or that a collective begins or ends. Only this
//    counts in training and within a collective, because a rank that waits may spin;
//  - otherwise also if it uses some CPU time or prints something: while it loads, compiles or
//    saves, and if it has no flight recorder.
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

  // Samples are expected every `interval`. A longer pause counts as two intervals, because then
  // this program or the whole machine stood still.
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

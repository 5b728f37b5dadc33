// Times of the parts of steps and of collectives, for a trace (report.trace_steps).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/flight_recorder.h"

namespace ddprun {

struct TimeSpan {
  using Time = std::chrono::steady_clock::time_point;

  std::string_view name;  // a literal
  Time begin = {};
  Time end = {};
  bool is_collective = false;  // or a message; otherwise a phase of the training thread
  // For a collective:
  Collective collective = {};
  std::chrono::nanoseconds waited = {};  // for other ranks
  std::string where = {};                // "step 57, bucket 3"
};

// The spans of one process while the log is open. Otherwise a span costs the look at a flag. Any
// thread may add spans.
class SpanLog {
 public:
  static SpanLog& OfProcess();

  // Forgets all spans and takes new ones.
  void Open();
  bool is_open() const { return open_.load(std::memory_order_relaxed); }
  // Cuts off what lies before Open().
  void Add(TimeSpan span);

  struct Spans {
    std::vector<TimeSpan> spans;
    size_t lost = 0;  // beyond kMostSpans
  };
  Spans Close();

 private:
  static constexpr size_t kMostSpans = 200'000;

  std::atomic<bool> open_ = false;
  std::mutex mutex_;  // guards what follows
  std::vector<TimeSpan> spans_;
  size_t lost_ = 0;
  TimeSpan::Time opened_ = {};
};

}  // namespace ddprun

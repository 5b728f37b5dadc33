// The world of a simulated job: a loop, a clock that jumps from event to event, a random generator,
// and a trace of events. Everything runs in one thread, and a seed always gives the same run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <ddprun/error.h>
#include "launcher/process/clock.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SimulatedClock : public Clock {
 public:
  Time Now() const override { return now_; }
  Alarm Set(Time::duration after, std::function<void()> ring) override {
    const auto alarm = std::make_shared<std::function<void()>>(std::move(ring));
    waiting_.emplace(std::pair(now_ + after, number_++), alarm);
    return alarm;
  }
  // Returns whether an alarm rings now, without time passing.
  bool IsDue() {
    while (!waiting_.empty() && waiting_.begin()->second.expired()) {
      waiting_.erase(waiting_.begin());
    }
    return !waiting_.empty() && waiting_.begin()->first.first <= now_;
  }
  // Moves the time to the next alarm, which rings. Returns false if there is none.
  bool RingNext() {
    while (!waiting_.empty()) {
      const auto next = waiting_.extract(waiting_.begin());
      const auto ring = next.mapped().lock();
      if (ring == nullptr) continue;
      now_ = std::max(now_, next.key().first);
      (*ring)();
      return true;
    }
    return false;
  }

 private:
  Time now_{};
  uint64_t number_ = 0;  // alarms of one time ring in the order in which they were set
  std::map<std::pair<Time, uint64_t>, std::weak_ptr<std::function<void()>>> waiting_;
};

inline Error SimulatedError(Code code) {
  return {.code = code, .title = "SIMULATED", .where = "", .what = "So.", .hint = "", .page = ""};
}

// The workers of one round on this node.
struct Generation {
  int restart_count = 0;
  Clock::Time began = {};
  bool ended = false;                    // the round has ended: no worker may be started
  bool over = false;                     // the node has joined the next round
  bool swept = false;                    // the workers' left children have been ended
  bool told = false;                     // a worker has been told to end
  bool hung = false;                     // a worker has got SIGABRT
  bool killing = false;                  // a worker has got SIGKILL
  bool start_failed = false;             // a worker could not be started
  std::optional<int> failure_code = {};  // of the first worker that failed before any was told
  pid_t failure_pid = 0;
  bool failed_before_stop = false;        // the first failure or the hang came before a stop
  std::optional<int> first_nonzero = {};  // first exit code that is not 0, told or not
  bool failed = false;                    // a worker has not ended well, told or not
  int replaced = 0;                       // number of replaced workers
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  asio::io_context io;
  SimulatedClock clock;

  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  int Pick(int from, int to) { return from + static_cast<int>(random_() % (to - from + 1)); }
  // Returns a multiple of 10 ms, so that events sometimes coincide.
  milliseconds Between(int from_ms, int to_ms) {
    return milliseconds(10 * Pick(from_ms / 10, to_ms / 10));
  }
  void After(milliseconds time, std::function<void()> what) {
    kept_.push_back(clock.Set(time, std::move(what)));
  }

  // Runs the loop until it is stopped.
  void Run() {
    const auto work = asio::make_work_guard(io);
    while (!io.stopped()) {
      if (clock.IsDue() && Chance(50)) {
        clock.RingNext();
      } else if (io.poll_one() == 0 && !clock.RingNext()) {
        Violate("nothing is left that could happen, and the job has not ended");
        return;
      }
      if (clock.Now() > Clock::Time(seconds(3600))) return Violate("the job does not end");
    }
  }

  void Note(const std::string& what) {
    const auto now = std::chrono::duration_cast<milliseconds>(clock.Now().time_since_epoch());
    trace.push_back(std::to_string(now.count()) + " ms: " + what);
  }
  void Violate(const std::string& what) {
    Note("VIOLATION: " + what);
    violations.push_back(what);
  }

  // Signals that the agent got.
  std::optional<int> stop_signal;
  std::optional<Clock::Time> hurried;
  // The agent's exchange with other nodes.
  bool telling = false;  // some nodes do not know yet how the round ends
  bool left = false;     // all nodes' workers have ended well
  std::optional<rendezvous::RoundEnd::Kind> peer_end;  // how another node ended the last round
  bool trouble = false;                                // an error that is not a worker's failure
  std::vector<Generation> generations;

  std::vector<std::string> trace;
  std::vector<std::string> violations;

 private:
  std::mt19937_64 random_;
  std::vector<Clock::Alarm> kept_;
};

}  // namespace ddprun::launcher

// What the parts of a simulated job share: one loop, a clock that jumps from event to event, one
// source of chance, and notes of what has happened. Everything runs in one thread, and the same
// seed gives the same run.
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

#include "base/error.h"
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
  // An alarm could ring before any time passes.
  bool IsDue() {
    while (!waiting_.empty() && waiting_.begin()->second.expired()) {
      waiting_.erase(waiting_.begin());
    }
    return !waiting_.empty() && waiting_.begin()->first.first <= now_;
  }
  // Lets the time pass until the next alarm, which rings. False: there is none.
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
  uint64_t number_ = 0;  // alarms of the same time ring in the order in which they were set
  std::map<std::pair<Time, uint64_t>, std::weak_ptr<std::function<void()>>> waiting_;
};

inline Error SimulatedError(Code code) {
  return {.code = code, .title = "SIMULATED", .where = "", .what = "So.", .hint = "", .page = ""};
}

// The workers of one round on this node, as the simulation knows them.
struct Generation {
  int restart_count = 0;
  Clock::Time began = {};
  bool ended = false;                    // the round: no worker is to be started any more
  bool over = false;                     // the node has joined anew since
  bool swept = false;                    // what its workers have left behind
  bool told = false;                     // one of them has been told to end
  bool hung = false;                     // by SIGABRT
  bool killing = false;                  // one of them has got SIGKILL
  bool start_failed = false;             // one of them could not be started
  std::optional<int> failure_code = {};  // of the first that failed before any was told
  pid_t failure_pid = 0;
  bool failed_before_stop = false;        // that failure, or the hang
  std::optional<int> first_nonzero = {};  // of any that exited, told or not
  bool failed = false;                    // one has not ended well, told or not
  int replaced = 0;                       // workers in whose place others have come
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  asio::io_context io;
  SimulatedClock clock;

  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  int Pick(int from, int to) { return from + static_cast<int>(random_() % (to - from + 1)); }
  // A multiple of 10 ms, so that things coincide now and then.
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

  // What was done to the agent.
  std::optional<int> stop_signal;
  std::optional<Clock::Time> hurried;
  // What the agent has done with the others.
  bool telling = false;  // they have not all heard yet how the round ends
  bool left = false;     // all nodes' workers have ended well
  std::optional<rendezvous::RoundEnd::Kind> peer_end;  // how another node has ended the last round
  bool trouble = false;  // what has gone wrong was no worker's failure
  std::vector<Generation> generations;

  std::vector<std::string> trace;
  std::vector<std::string> violations;

 private:
  std::mt19937_64 random_;
  std::vector<Clock::Alarm> kept_;
};

}  // namespace ddprun::launcher

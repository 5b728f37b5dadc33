// Notes which part of a training step the calling thread is in, so that `ddprun top` and traces
// show it.
#pragma once

#include <array>
#include <chrono>
#include <memory>

#include "base/flight_notes.h"
#include "base/flight_recorder.h"

namespace ddprun {

// From now on the phases of this thread go to `recorder`, which may be nullptr, and to
// SpanLog::OfProcess() while it is open.
void NotePhasesIn(std::shared_ptr<FlightRecorder> recorder);
// Ends this.
void StopNotingPhases();

// Notes that a phase begins on this thread. Does nothing on a thread whose phases are not noted.
void BeginPhase(StepPhase phase);

// The time that a thread spent in each phase, by StepPhase, without its waits for other ranks.
using OwnTimes = std::array<std::chrono::nanoseconds, 8>;
// Returns the times of the phases of this thread that have ended since the last call. Zeros on a
// thread whose phases are not noted.
OwnTimes TakeOwnTimes();

// While this object lives, the calling thread waits for other ranks.
class WaitForRanks {
 public:
  WaitForRanks();
  ~WaitForRanks();
  WaitForRanks(const WaitForRanks&) = delete;
  WaitForRanks& operator=(const WaitForRanks&) = delete;

 private:
  // Unset in a wait within another one, and on a thread whose phases are not noted.
  std::chrono::steady_clock::time_point since_ = {};
};

// Notes a phase within another one, which goes on when this object ends.
class InnerPhase {
 public:
  explicit InnerPhase(StepPhase phase);
  ~InnerPhase();
  InnerPhase(const InnerPhase&) = delete;
  InnerPhase& operator=(const InnerPhase&) = delete;

 private:
  const StepPhase before_;
};

}  // namespace ddprun

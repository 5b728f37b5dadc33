#include "base/step_phase.h"

#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/span_log.h"

namespace ddprun {

namespace {

using Clock = std::chrono::steady_clock;

struct Noted {
  std::shared_ptr<FlightRecorder> recorder;
  StepPhase phase = StepPhase::kNone;
  TimeSpan::Time since = {};             // of the phase
  std::chrono::nanoseconds waited = {};  // in the phase, for other ranks
  bool waits = false;
  OwnTimes own = {};  // since the last TakeOwnTimes()
};
// One for each thread, because a loader that another thread uses is no part of the step.
thread_local std::optional<Noted> noted;

// As in StepPhase.
constexpr std::array<std::string_view, std::tuple_size_v<OwnTimes>> kNames = {
    "", "wait for data", "forward", "backward", "update", "between steps", "evaluate", "save"};

StepPhase Exchange(StepPhase phase) {
  if (!noted) return StepPhase::kNone;
  if (noted->recorder != nullptr) noted->recorder->SetStepPhase(phase);
  const TimeSpan::Time now = Clock::now();
  const auto ended = static_cast<size_t>(noted->phase);
  SpanLog& log = SpanLog::OfProcess();
  if (log.is_open() && !kNames[ended].empty()) {
    log.Add({.name = kNames[ended], .begin = noted->since, .end = now});
  }
  noted->own[ended] += now - noted->since - std::exchange(noted->waited, {});
  noted->since = now;
  return std::exchange(noted->phase, phase);
}

}  // namespace

void NotePhasesIn(std::shared_ptr<FlightRecorder> recorder) {
  noted = Noted{.recorder = std::move(recorder), .since = Clock::now()};
}

void StopNotingPhases() {
  noted.reset();
}

void BeginPhase(StepPhase phase) {
  Exchange(phase);
}

OwnTimes TakeOwnTimes() {
  return noted ? std::exchange(noted->own, {}) : OwnTimes();
}

WaitForRanks::WaitForRanks() {
  if (!noted || std::exchange(noted->waits, true)) return;
  since_ = Clock::now();
}

WaitForRanks::~WaitForRanks() {
  if (since_ == Clock::time_point() || !noted) return;
  noted->waited += Clock::now() - since_;
  noted->waits = false;
}

InnerPhase::InnerPhase(StepPhase phase) : before_(Exchange(phase)) {}

InnerPhase::~InnerPhase() {
  BeginPhase(before_);
}

}  // namespace ddprun

#include "base/step_phase.h"

#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "base/span_log.h"

namespace ddprun {

namespace {

struct Noted {
  std::shared_ptr<FlightRecorder> recorder;
  StepPhase phase = StepPhase::kNone;
  TimeSpan::Time since = {};  // known if the log of spans was open then
};
// Of the thread, because a loader that another thread uses is no part of the step.
thread_local std::optional<Noted> noted;

// As in StepPhase.
constexpr std::array<std::string_view, 8> kNames = {
    "", "wait for data", "forward", "backward", "update", "between steps", "evaluate", "save"};

StepPhase Exchange(StepPhase phase) {
  if (!noted) return StepPhase::kNone;
  if (noted->recorder != nullptr) noted->recorder->SetStepPhase(phase);
  SpanLog& log = SpanLog::OfProcess();
  if (log.is_open()) {
    const TimeSpan::Time now = std::chrono::steady_clock::now();
    const std::string_view name = kNames[static_cast<size_t>(noted->phase)];
    if (!name.empty()) log.Add({.name = name, .begin = noted->since, .end = now});
    noted->since = now;
  }
  return std::exchange(noted->phase, phase);
}

}  // namespace

void NotePhasesIn(std::shared_ptr<FlightRecorder> recorder) {
  noted = Noted{.recorder = std::move(recorder)};
}

void StopNotingPhases() {
  noted.reset();
}

void BeginPhase(StepPhase phase) {
  Exchange(phase);
}

InnerPhase::InnerPhase(StepPhase phase) : before_(Exchange(phase)) {}

InnerPhase::~InnerPhase() {
  BeginPhase(before_);
}

}  // namespace ddprun

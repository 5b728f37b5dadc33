#include "base/step_phase.h"

#include <utility>

namespace ddprun {

namespace {

// Of the thread, because a loader that another thread uses is no part of the step.
thread_local std::shared_ptr<FlightRecorder> phases_in;

StepPhase Exchange(StepPhase phase) {
  return phases_in != nullptr ? phases_in->SetStepPhase(phase) : StepPhase::kNone;
}

}  // namespace

void NotePhasesIn(std::shared_ptr<FlightRecorder> recorder) {
  phases_in = std::move(recorder);
}

void BeginPhase(StepPhase phase) {
  Exchange(phase);
}

InnerPhase::InnerPhase(StepPhase phase) : before_(Exchange(phase)) {}

InnerPhase::~InnerPhase() {
  BeginPhase(before_);
}

}  // namespace ddprun

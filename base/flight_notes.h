// Texts and numbers that a worker writes to its page of the flight recorder for the launcher's
// report and for `ddprun top`. They change seldom. If the environment names no recorder, these
// functions do nothing.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/env.h"

namespace ddprun {

// From now on this worker computes on the GPU with this PCI address ("0000:3b:00.0").
// REQUIRES: the worker has attached itself to the recorder (FlightRecorder::Attach).
void NoteGpu(const Environment& env, int local_rank, std::string_view bus_id);

// If the job fails from now on, a user can run `command` to continue its work. "" means that there
// is nothing to continue; a command that is too long for the page counts as "".
void NoteResumeCommand(const Environment& env, int local_rank, std::string_view command);

// This start of the worker belongs to a job of `world_size` ranks that has restarted so often.
void NoteStart(const Environment& env, int local_rank, int world_size, int restarts);

// The part of a training step that a worker is in (FlightRecorder::SetStepPhase).
enum class StepPhase : uint8_t {
  kNone,
  kData,
  kForward,
  kBackward,
  kUpdate,  // and the norm of the gradients
  kBetween,
  kEvaluate,
  kSave  // the part of a save for which training waits
};

// Numbers of a run for people, after its last reported step.
struct RunProgress {
  int64_t total_steps = 0;
  double loss = 0;
  double samples_per_second = 0;  // of all ranks
  double step_seconds = 0;        // on average of the last steps; 0 means that none is reported
};
void NoteRun(const Environment& env, int local_rank, const RunProgress& run);

}  // namespace ddprun

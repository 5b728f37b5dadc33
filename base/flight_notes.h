// Texts that a worker writes to its page of the flight recorder for the launcher's report. They
// change seldom. If the environment names no recorder, these functions do nothing.
#pragma once

#include <string_view>

#include "base/env.h"

namespace ddprun {

// From now on this worker computes on the GPU with this PCI address ("0000:3b:00.0").
// REQUIRES: the worker has attached itself to the recorder (FlightRecorder::Attach).
void NoteGpu(const Environment& env, int local_rank, std::string_view bus_id);

// If the job fails from now on, a user can run `command` to continue its work. "" means that there
// is nothing to continue; a command that is too long for the page counts as "".
void NoteResumeCommand(const Environment& env, int local_rank, std::string_view command);

}  // namespace ddprun

// What a worker leaves for its launcher's report on its page of the flight recorder: a few words
// that change seldom. Where the environment names no recorder, nothing happens.
#pragma once

#include <string_view>

#include "base/env.h"

namespace ddprun {

// A worker that is attached to the recorder of kFlightRecorderVariable computes on the GPU with
// this PCI address ("0000:3b:00.0") from now on.
void NoteGpu(const Environment& env, int local_rank, std::string_view bus_id);

// If the job fails from now on, a user can run `command` to continue its work. "" means that there
// is nothing to continue; a command that is too long for the page counts as "".
void NoteToGoOn(const Environment& env, int local_rank, std::string_view command);

}  // namespace ddprun

// Which GPU a worker computes on, for the report of its end.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/env.h"

namespace ddprun {

inline constexpr size_t kRecordedGpuBytes = 16;  // a longer address is cut

// The worker's side, once it is attached to the flight recorder of DDPRUN_FLIGHT_RECORDER_FD: it
// computes on the GPU with this PCI address ("0000:3b:00.0") from now on. Where there is no
// recorder, nothing happens.
void NoteGpu(const Environment& env, int local_rank, std::string_view bus_id);

}  // namespace ddprun

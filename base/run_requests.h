// Files in a run's folder by which people ask the running run for something: `ddprun save` and
// `ddprun stop` make them, and rank 0 of ddp-trainer looks for them.
#pragma once

namespace ddprun {

constexpr const char* kSaveRequest = "save";  // a checkpoint after this step
constexpr const char* kStopRequest = "stop";  // a checkpoint after this step, and then the end
constexpr const char* kRunLock = "run.lock";  // a running run locks this file (flock)

}  // namespace ddprun

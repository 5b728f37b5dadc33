// The ranks that use a saved model together. Each has the whole model and a share of the samples.
#pragma once

#include <string>

#include <ddprun/mesh.h>
#include "base/env.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

struct UseRanks {
  Mesh mesh;              // has no group for tensors of the model, only `control`
  std::string note = {};  // why there are GPUs that are not used, or ""
};

// Meets the other ranks, if a launcher has started several, and takes the device. `device`: as
// run.device. If the virtual ranks of the job's config cannot be divided among the ranks, gives
// them up; then the last bits of sums differ. A collective. Throws Failure.
UseRanks MeetToUse(const std::string& device, const Environment& environment, Job& job);

// Takes the device for a process that uses a model alone, also where a launcher has started others.
// `device`: as run.device. Throws Failure.
UseRanks TakeDevice(const std::string& device, const Environment& environment);

}  // namespace ddprun::trainer

// The devices of processes that train together.
#pragma once

#include <chrono>
#include <string>

#include "base/env.h"
#include "trainer/comm/rank_info.h"
#include "trainer/cuda/cuda_module.h"
#include "trainer/parallel/mesh.h"

namespace ddprun::trainer {

// Gives each process the GPU with its local rank's number, and the axes groups between GPUs, where
// run.device asks for that: "cuda", or "auto" and every process has one. `mesh` is on the CPU so
// far, and its control group stays there. Returns why the CPU is taken although there are GPUs, or
// "". A collective, but for "cpu". Throws Failure when "cuda" has no GPU for this process.
std::string PutOnDevices(const std::string& device,
                         const DeviceChoice& choice,
                         int local_rank,
                         const Environment& environment,
                         std::chrono::milliseconds timeout,
                         Mesh& mesh);

}  // namespace ddprun::trainer

// The devices of processes that train together.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "base/env.h"
#include "trainer/comm/rank_info.h"
#include "trainer/cuda/cuda_module.h"

namespace ddprun::trainer {

// Gives each process the GPU with its local rank's number, and the axes groups between GPUs, where
// run.device asks for that: "cuda", or "auto" and every process has one. `mesh` is on the CPU so
// far, and its control group stays there. Returns why the CPU is taken although there are GPUs, or
// "". A collective where ranks may differ: not for "cpu", nor where all ranks are on one node that
// has no GPU. Throws Failure when "cuda" has no GPU for this process.
std::string PutOnDevices(const std::string& device,
                         const DeviceChoice& choice,
                         const RankInfo& rank,
                         const Environment& environment,
                         std::chrono::milliseconds timeout,
                         Mesh& mesh);

// The same for a process that has all of those devices, of strategy.devices, or shares the one of
// run.device with others: groups stay on the CPU, as NCCL takes no GPU twice. Throws Failure when
// one is not there, naming the key. REQUIRES: there is one.
void PutOnNamedDevices(const std::vector<c10::Device>& devices,
                       const std::string& key,
                       const DeviceChoice& choice,
                       Mesh& mesh);

// Gives the axes groups between devices instead of theirs, connected to mesh.device; those of the
// same processes share one. They meet under `prefix` in the store, which is opened where there are
// any. A collective.
void ReplaceGroups(const CudaModule& module,
                   const std::string& prefix,
                   const std::function<c10::intrusive_ptr<c10d::Store>()>& open_store,
                   std::chrono::milliseconds timeout,
                   Mesh& mesh);

}  // namespace ddprun::trainer

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

// If `device` is "cuda", or "auto" and every process has a GPU, gives each process the GPU with its
// local rank's number, and the axes of `mesh` groups between GPUs; the control group stays on the
// CPU. Returns why training is on the CPU although there are GPUs, or "". A collective, unless
// `device` is "cpu" or all ranks are on one node without GPUs. Throws Failure if "cuda" has no GPU
// for this process.
std::string PutOnDevices(const std::string& device,
                         const DeviceChoice& choice,
                         const RankInfo& rank,
                         const Environment& environment,
                         std::chrono::milliseconds timeout,
                         Mesh& mesh);

// Puts `mesh` on the devices of `key`: strategy.devices, or the device of run.device, which several
// processes may share. Groups stay on the CPU, because NCCL takes no GPU twice. Throws Failure if a
// device is missing. REQUIRES: `devices` is not empty.
void PutOnNamedDevices(const std::vector<c10::Device>& devices,
                       const std::string& key,
                       const DeviceChoice& choice,
                       Mesh& mesh);

// Puts the processes on `device`, the value of `key` as run.device has it, by PutOnNamedDevices()
// or PutOnDevices(), whose note it returns.
std::string PutOnDeviceOf(const std::string& device,
                          const std::string& key,
                          const DeviceChoice& choice,
                          const RankInfo& rank,
                          const Environment& environment,
                          std::chrono::milliseconds timeout,
                          Mesh& mesh);

// A collective. Replaces the groups of all axes by groups between devices, connected to
// mesh.device. Axes that share a group share its replacement, but mesh.later and mesh.earlier have
// groups of their own, which connect two ranks at their first message. Groups meet under `prefix`
// in the store, which is opened only if there is a group.
void ReplaceGroups(const CudaModule& module,
                   const std::string& prefix,
                   const std::function<c10::intrusive_ptr<c10d::Store>()>& open_store,
                   std::chrono::milliseconds timeout,
                   Mesh& mesh);

}  // namespace ddprun::trainer

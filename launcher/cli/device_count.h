// How many workers --nproc_per_node means, without loading CUDA: initialising it would cost
// seconds and leave a context on every GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// What this machine offers; tests fill in their own.
struct Devices {
  int gpus = 0;                             // /dev/nvidia0, /dev/nvidia1, ...
  std::optional<std::string> visible_gpus;  // CUDA_VISIBLE_DEVICES
  int xpus = 0;                             // Intel GPUs
  int cores = 1;                            // UsableCores
};

// Counts the nvidia<number> entries of `device_folder`, the render nodes of Intel's in
// `drm_folder`, and reads mask, quota and environment.
Devices FindDevices(const Environment& env,
                    const std::string& device_folder = "/dev",
                    const std::string& drm_folder = "/sys/class/drm");

// `text` is a number, auto (GPUs if there are any, else cores), gpu, xpu or cpu, as ParseOptions
// has checked. kUsage when gpu or xpu is asked for and none is there.
Result<int> CountWorkers(std::string_view text, const Devices& devices);

// Cores that this process may keep busy: affinity mask and cgroup CPU quota, at least 1.
int UsableCores();

}  // namespace ddprun::launcher

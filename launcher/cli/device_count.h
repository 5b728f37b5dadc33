// Counts the workers that --nproc_per_node means, without loading CUDA (nvidia_driver.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/nvidia_driver.h"
#include "base/result.h"

namespace ddprun::launcher {

// The devices of this machine; tests fill in their own.
struct Devices {
  std::vector<Gpu> gpus = {};               // FindDevices() leaves their fields empty
  std::optional<std::string> visible_gpus;  // CUDA_VISIBLE_DEVICES
  int xpus = 0;                             // Intel GPUs
  int cores = 1;                            // UsableCores()
};

// Counts the nvidia<number> entries of `device_folder` and Intel's render nodes in `drm_folder`,
// and reads affinity mask, CPU quota and environment.
Devices FindDevices(const Environment& env,
                    const std::string& device_folder = "/dev",
                    const std::string& drm_folder = "/sys/class/drm");

// `text` is a number, auto (GPUs if there are any, else cores), gpu, xpu or cpu, as ParseOptions()
// has checked. Returns kUsage if it is gpu or xpu and there is none.
Result<int> CountWorkers(std::string_view text, const Devices& devices);

// Calls CountWorkers() for this machine. Asks NVIDIA's driver if `text` is auto or gpu.
Result<int> CountWorkersHere(std::string_view text, const Environment& env);

// Returns the cores that this process may use by affinity mask and cgroup CPU quota, at least 1.
int UsableCores();

}  // namespace ddprun::launcher

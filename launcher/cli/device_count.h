// How many workers --nproc_per_node means, without loading CUDA (nvidia_driver.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/nvidia_driver.h"
#include "base/result.h"

namespace ddprun::launcher {

// What this machine offers; tests fill in their own.
struct Devices {
  std::vector<Gpu> gpus = {};               // as far as anything is known of them
  std::optional<std::string> visible_gpus;  // CUDA_VISIBLE_DEVICES
  int xpus = 0;                             // Intel GPUs
  int cores = 1;                            // UsableCores
};

// Counts the nvidia<number> entries of `device_folder`, the render nodes of Intel's in
// `drm_folder`, and reads mask, quota and environment. Nothing more is known of GPUs then.
Devices FindDevices(const Environment& env,
                    const std::string& device_folder = "/dev",
                    const std::string& drm_folder = "/sys/class/drm");

// `text` is a number, auto (GPUs if there are any, else cores), gpu, xpu or cpu, as ParseOptions
// has checked. kUsage when gpu or xpu is asked for and none is there.
Result<int> CountWorkers(std::string_view text, const Devices& devices);

// The same on this machine, whose driver is asked where GPUs count.
Result<int> CountWorkersHere(std::string_view text, const Environment& env);

// Cores that this process may keep busy: affinity mask and cgroup CPU quota, at least 1.
int UsableCores();

}  // namespace ddprun::launcher

// Shares of this machine for runs at the same time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/result.h"
#include "launcher/cli/device_count.h"

namespace ddprun::launcher {

struct MachineShare {
  CpuSet cpus;
  std::optional<std::string> gpus;  // CUDA_VISIBLE_DEVICES; nullopt: the machine has none
};

// Returns a share for each of `runs` (>= 1) runs with so many workers. If there are fewer CPUs than
// runs, each has all of them. kUsage: there are GPUs, but not one for each worker of all runs.
Result<std::vector<MachineShare>> DivideMachine(int runs,
                                                int workers,
                                                const CpuSet& cpus,
                                                const Devices& devices);

}  // namespace ddprun::launcher

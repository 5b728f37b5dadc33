// --numa_binding: which CPUs each worker of this node may use. As torch/numa/binding.py,
// torch 2.11, without its need for numactl and CUDA.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpus.h"
#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// What the kernel says about the CPUs that this process may use; tests fill in their own.
struct CpuTopology {
  std::map<int, CpuSet> nodes;       // NUMA node -> its CPUs; nodes without any are left out
  std::map<int, int> socket_of_cpu;  // physical package
  std::map<int, int> core_of_cpu;    // the lowest CPU of the same physical core
  std::map<int, int> cache_of_cpu;   // the lowest CPU that shares the last-level cache
  // Of the GPUs that workers see, in their order. Empty: no GPU, or nothing is known of them.
  std::vector<int> node_of_gpu;
};

// `root` holds sys/ and proc/. A kernel that does not tell gets one NUMA node, socket and cache.
CpuTopology ReadCpuTopology(const Environment& env,
                            const CpuSet& allowed,
                            const std::string& root = "");

// `mode` as in Options::numa_binding, not empty. One set for each local rank. GPU i is local rank
// i's; without GPUs the workers take the NUMA nodes in turn. kUsage when a worker would get none.
Result<std::vector<CpuSet>> BindWorkers(std::string_view mode,
                                        int local_world_size,
                                        const CpuTopology& topology);

}  // namespace ddprun::launcher

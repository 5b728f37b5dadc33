// --numa_binding: the CPUs that each worker of this node may use. Follows torch/numa/binding.py of
// torch 2.11, but needs neither numactl nor CUDA.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpus.h"
#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// The CPUs that this process may use, by the kernel's data; tests fill in their own.
struct CpuTopology {
  std::map<int, CpuSet> nodes;       // NUMA node -> its CPUs; nodes without CPUs are left out
  std::map<int, int> socket_of_cpu;  // physical package
  std::map<int, int> core_of_cpu;    // the lowest CPU of the same physical core
  std::map<int, int> cache_of_cpu;   // the lowest CPU that shares the last-level cache
  // NUMA nodes of the GPUs that workers see, in the workers' order. Empty means no known GPU.
  std::vector<int> node_of_gpu;
};

// `root` holds sys/ and proc/. Without data there is one NUMA node, one socket and one cache.
CpuTopology ReadCpuTopology(const Environment& env,
                            const CpuSet& allowed,
                            const std::string& root = "");

// Returns one set for each local rank. `mode` is Options::numa_binding, not "". GPU i belongs to
// local rank i; without GPUs, workers take the NUMA nodes in turn. kUsage: a worker gets no CPU.
Result<std::vector<CpuSet>> BindWorkers(std::string_view mode,
                                        int local_world_size,
                                        const CpuTopology& topology);

}  // namespace ddprun::launcher

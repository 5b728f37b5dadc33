#include "launcher/cli/numa_binding.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

Error CannotBind(std::string_view mode, std::string what) {
  return Error{.code = Code::kUsage,
               .title = "CANNOT BIND WORKERS",
               .where = "--numa_binding=" + std::string(mode),
               .what = std::move(what),
               .hint =
                   "Start fewer workers, bind to whole nodes (--numa_binding=node), or leave it "
                   "out. taskset and cgroups limit the CPUs that count.",
               .page = "cannot-bind-workers"};
}

// Returns the NUMA node of each local rank.
std::vector<int> NodesOfWorkers(int local_world_size, const CpuTopology& topology) {
  std::vector<int> choices = topology.node_of_gpu;
  if (choices.empty()) {
    for (const auto& [node, cpus] : topology.nodes) choices.push_back(node);
  }
  std::vector<int> nodes;
  for (int rank = 0; rank < local_world_size; ++rank) {
    nodes.push_back(choices[static_cast<size_t>(rank) % choices.size()]);
  }
  return nodes;
}

CpuSet CpusOfSocket(int node, const CpuTopology& topology) {
  const int socket = topology.socket_of_cpu.at(*topology.nodes.at(node).begin());
  CpuSet result;
  for (const auto& [other, cpus] : topology.nodes) {
    if (topology.socket_of_cpu.at(*cpus.begin()) == socket) {
      result.insert(cpus.begin(), cpus.end());
    }
  }
  return result;
}

// Returns groups of CPUs with equal `key`, sorted by key.
std::vector<CpuSet> GroupBy(const CpuSet& cpus, const std::map<int, int>& key) {
  std::map<int, CpuSet> groups;
  for (const int cpu : cpus) groups[key.at(cpu)].insert(cpu);
  std::vector<CpuSet> result;
  for (auto& [first, group] : groups) result.push_back(std::move(group));
  return result;
}

// Returns share `index` of `count`. If the division has a remainder, the first get one core more.
CpuSet ShareOfCores(const std::vector<CpuSet>& cores, size_t index, size_t count) {
  const size_t each = cores.size() / count;
  const size_t extra = cores.size() % count;
  const size_t begin = index * each + std::min(index, extra);
  const size_t end = begin + each + (index < extra ? 1 : 0);
  CpuSet result;
  for (size_t i = begin; i < end; ++i) result.insert(cores[i].begin(), cores[i].end());
  return result;
}

CpuSet CoreComplex(const CpuSet& cpus, size_t index, const CpuTopology& topology) {
  std::vector<CpuSet> caches = GroupBy(cpus, topology.cache_of_cpu);
  std::stable_sort(caches.begin(), caches.end(),
                   [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
  return caches[index % caches.size()];
}

}  // namespace

Result<std::vector<CpuSet>> BindWorkers(std::string_view mode,
                                        int local_world_size,
                                        const CpuTopology& topology) {
  const std::vector<int> nodes = NodesOfWorkers(local_world_size, topology);
  std::vector<CpuSet> result;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    const int node = nodes[rank];
    const auto found = topology.nodes.find(node);
    if (found == topology.nodes.end()) {
      return CannotBind(mode, "Local rank " + std::to_string(rank) + "'s GPU is at NUMA node " +
                                  std::to_string(node) + ", none of whose CPUs I may use.");
    }
    const CpuSet& cpus = found->second;
    // Number of this NUMA node's workers before this worker, and in all.
    const auto index = static_cast<size_t>(
        std::count(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(rank), node));
    const auto count = static_cast<size_t>(std::count(nodes.begin(), nodes.end(), node));
    if (mode == "node") {
      result.push_back(cpus);
    } else if (mode == "socket") {
      result.push_back(CpusOfSocket(node, topology));
    } else if (mode == "core-complex") {
      result.push_back(CoreComplex(cpus, index, topology));
    } else {
      const std::vector<CpuSet> cores = GroupBy(cpus, topology.core_of_cpu);
      if (cores.size() < count) {
        return CannotBind(mode, "NUMA node " + std::to_string(node) + " has " +
                                    CountText(std::ssize(cores), "core") + " for " +
                                    std::to_string(count) + " workers.");
      }
      result.push_back(ShareOfCores(cores, index, count));
    }
  }
  return result;
}

}  // namespace ddprun::launcher

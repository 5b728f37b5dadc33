// Reads CpuTopology from /sys, /proc/driver/nvidia and the affinity mask.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "launcher/cli/numa_binding.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> ReadWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return word;
}

int ReadIntOr(const std::string& path, int fallback) {
  const std::optional<int64_t> value = ParseInt(ReadWord(path).value_or(""));
  return value ? static_cast<int>(*value) : fallback;
}

CpuSet ReadCpuList(const std::string& path) {
  return ParseCpuList(ReadWord(path).value_or(""));
}

CpuSet Common(const CpuSet& a, const CpuSet& b) {
  CpuSet result;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(),
                        std::inserter(result, result.begin()));
  return result;
}

// Returns the lowest CPU that shares the data cache of the highest level, or `fallback` if unknown.
int LastCache(const std::string& cpu_folder, int fallback) {
  int best_level = -1;
  int first = fallback;
  for (int index = 0;; ++index) {
    const std::string cache = cpu_folder + "/cache/index" + std::to_string(index);
    const std::optional<std::string> type = ReadWord(cache + "/type");
    if (!type) return first;
    if (*type != "Unified" && *type != "Data") continue;
    const int level = ReadIntOr(cache + "/level", -1);
    const CpuSet sharing = ReadCpuList(cache + "/shared_cpu_list");
    if (level <= best_level || sharing.empty()) continue;
    best_level = level;
    first = *sharing.begin();
  }
}

struct GpuPlace {
  std::string uuid;
  int node = 0;
};

// Returns the GPUs by PCI address, because CUDA numbers equal GPUs in this order.
std::vector<GpuPlace> ReadGpus(const std::string& root) {
  std::set<std::string> addresses;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", ignored)) {
    addresses.insert(entry.path().filename());
  }
  std::vector<GpuPlace> gpus;
  for (const std::string& address : addresses) {
    GpuPlace gpu;
    // -1 means that the machine has only one NUMA node.
    gpu.node = std::max(0, ReadIntOr(root + "/sys/bus/pci/devices/" + address + "/numa_node", 0));
    std::ifstream file(root + "/proc/driver/nvidia/gpus/" + address + "/information");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("GPU UUID:")) continue;
      std::stringstream(line.substr(line.find(':') + 1)) >> gpu.uuid;
    }
    gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<int> NodesOfVisibleGpus(const Environment& env, const std::string& root) {
  const std::vector<GpuPlace> gpus = ReadGpus(root);
  std::vector<int> nodes;
  const std::optional<std::string> visible = env.Get("CUDA_VISIBLE_DEVICES");
  if (!visible) {
    for (const GpuPlace& gpu : gpus) nodes.push_back(gpu.node);
    return nodes;
  }
  std::stringstream list(*visible);
  for (std::string entry; std::getline(list, entry, ',');) {
    std::string name;
    std::stringstream(entry) >> name;
    const std::optional<int64_t> number = ParseInt(name);
    const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const GpuPlace& gpu) {
      return number ? &gpu - gpus.data() == *number
                    : !name.empty() && gpu.uuid.starts_with(name);  // CUDA takes prefixes, too
    });
    // CUDA, too, stops at the first entry that it does not know.
    if (found == gpus.end()) break;
    nodes.push_back(found->node);
  }
  return nodes;
}

}  // namespace

CpuTopology ReadCpuTopology(const Environment& env,
                            const CpuSet& allowed,
                            const std::string& root) {
  CpuTopology topology;
  const std::string nodes = root + "/sys/devices/system/node";
  for (const int node : ReadCpuList(nodes + "/possible")) {
    const CpuSet cpus =
        Common(ReadCpuList(nodes + "/node" + std::to_string(node) + "/cpulist"), allowed);
    if (!cpus.empty()) topology.nodes[node] = cpus;
  }
  if (topology.nodes.empty()) topology.nodes[0] = allowed;
  for (const int cpu : allowed) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    const CpuSet siblings = ReadCpuList(folder + "/topology/thread_siblings_list");
    topology.core_of_cpu[cpu] = siblings.empty() ? cpu : *siblings.begin();
    topology.socket_of_cpu[cpu] = ReadIntOr(folder + "/topology/physical_package_id", 0);
    topology.cache_of_cpu[cpu] = LastCache(folder, 0);
  }
  topology.node_of_gpu = NodesOfVisibleGpus(env, root);
  return topology;
}

}  // namespace ddprun::launcher

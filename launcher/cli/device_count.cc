#include "launcher/cli/device_count.h"

#include <dirent.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>

#include "base/cpus.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kGpuPrefix = "nvidia";

size_t CountGpuNodes(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  size_t count = 0;
  while (dir != nullptr) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    // nvidiactl and nvidia-uvm are not GPUs.
    if (name.starts_with(kGpuPrefix) && ParseInt(name.substr(kGpuPrefix.size()))) ++count;
  }
  return count;
}

// Counts Intel's GPUs, as torch.xpu does. Each has one render node.
int CountXpus(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  int count = 0;
  while (dir != nullptr) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string name(entry->d_name);
    if (!name.starts_with("renderD")) continue;
    std::ifstream file(folder + "/" + name + "/device/vendor");
    std::string vendor;
    if (file >> vendor && vendor == "0x8086") ++count;
  }
  return count;
}

// Reads cgroup v2's "max 100000" or "<quota> <period>". Returns nullopt if there is no quota.
std::optional<double> QuotaV2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  const std::optional<int64_t> value = ParseInt(quota);
  if (!value) return std::nullopt;
  return static_cast<double>(*value) / period;
}

std::optional<double> QuotaV1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) {
    return std::nullopt;
  }
  return quota / period;
}

// Returns the smallest quota of this process's cgroup and its parents.
double CgroupCores() {
  double cores = INFINITY;
  std::ifstream membership("/proc/self/cgroup");
  std::string line;
  while (std::getline(membership, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    std::string path = line.substr(second + 1);
    while (true) {
      const std::string folder = root + (path == "/" ? "" : path);
      const std::optional<double> quota = v2 ? QuotaV2(folder) : QuotaV1(folder);
      if (quota) cores = std::min(cores, *quota);
      if (path.empty() || path == "/") break;
      path.resize(path.find_last_of('/'));
    }
  }
  return cores;
}

Error NoXpu() {
  return Error{.code = Code::kUsage,
               .title = "NO GPU",
               .where = "--nproc_per_node=xpu",
               .what = "This node has no GPU of Intel's: there is none in /sys/class/drm.",
               .hint = "Use --nproc_per_node=auto (GPUs if any, else cores), cpu or a number.",
               .page = "no-gpu"};
}

}  // namespace

Devices FindDevices(const Environment& env,
                    const std::string& device_folder,
                    const std::string& drm_folder) {
  return Devices{.gpus = std::vector<Gpu>(CountGpuNodes(device_folder)),
                 .visible_gpus = env.Get("CUDA_VISIBLE_DEVICES"),
                 .xpus = CountXpus(drm_folder),
                 .cores = UsableCores()};
}

Result<int> CountWorkers(std::string_view text, const Devices& devices) {
  if (const std::optional<int64_t> number = ParseInt(text)) return static_cast<int>(*number);
  if (text == "xpu") {
    if (devices.xpus > 0) return devices.xpus;
    return NoXpu();
  }
  const int gpus = CountVisibleGpus(devices.gpus, devices.visible_gpus);
  if (text == "cpu" || (text == "auto" && gpus == 0)) return devices.cores;
  if (gpus > 0) return gpus;
  const bool hidden = !devices.gpus.empty();
  return Error{.code = Code::kUsage,
               .title = "NO GPU",
               .where = "--nproc_per_node=gpu",
               .what = hidden
                           ? "CUDA_VISIBLE_DEVICES is \"" + devices.visible_gpus.value_or("") +
                                 "\", which shows none of this node's " +
                                 std::to_string(devices.gpus.size()) + " GPUs."
                           : "This node has no GPU: there is no /dev/nvidia0, and no driver that "
                             "answers.",
               .hint = hidden ? "Correct or unset CUDA_VISIBLE_DEVICES."
                              : "Use --nproc_per_node=auto (GPUs if any, else cores), cpu or a "
                                "number. ddprun doctor says what is missing.",
               .page = "no-gpu"};
}

Result<int> CountWorkersHere(std::string_view text, const Environment& env) {
  Devices devices = FindDevices(env);
  if (text == "auto" || text == "gpu") {
    if (Result<NvidiaDriver> driver = QueryNvidiaDriver()) devices.gpus = std::move(driver->gpus);
  }
  return CountWorkers(text, devices);
}

int UsableCores() {
  const double cores = std::min(static_cast<double>(AllowedCpus().size()), CgroupCores());
  return std::max(1, static_cast<int>(cores));
}

}  // namespace ddprun::launcher

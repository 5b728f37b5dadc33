#include "launcher/sweep/machine_share.h"

#include <algorithm>
#include <iterator>

#include "base/nvidia_driver.h"
#include "base/text.h"

namespace ddprun::launcher {

namespace {

// Returns the names of the visible GPUs, as CUDA_VISIBLE_DEVICES has them.
std::vector<std::string> VisibleGpus(const Devices& devices) {
  const auto count = static_cast<size_t>(CountVisibleGpus(devices.gpus, devices.visible_gpus));
  std::vector<std::string> names;
  if (devices.visible_gpus) {
    for (const std::string_view name : SplitAt(*devices.visible_gpus, ',')) {
      if (names.size() < count) names.emplace_back(name);
    }
  }
  while (names.size() < count) names.push_back(std::to_string(names.size()));
  return names;
}

}  // namespace

Result<std::vector<MachineShare>> DivideMachine(int runs,
                                                int workers,
                                                const CpuSet& cpus,
                                                const Devices& devices) {
  const std::vector<std::string> gpus = VisibleGpus(devices);
  const auto of_run = static_cast<size_t>(workers);
  const size_t wanted = of_run * static_cast<size_t>(runs);
  if (!gpus.empty() && gpus.size() < wanted) {
    return Error{.code = Code::kUsage,
                 .title = "BAD SWEEP",
                 .where = "--sweep_jobs=" + std::to_string(runs),
                 .what = std::to_string(runs) + " runs at the same time with " +
                         CountText(workers, "worker") + " each need " + std::to_string(wanted) +
                         " GPUs; " + std::to_string(gpus.size()) + " are visible.",
                 .hint =
                     "Run fewer at the same time, or train on the CPU: CUDA_VISIBLE_DEVICES= "
                     "in front of ddprun.",
                 .page = "bad-sweep"};
  }
  const std::vector<int> all(cpus.begin(), cpus.end());
  const size_t share = all.size() / static_cast<size_t>(runs);
  std::vector<MachineShare> shares(static_cast<size_t>(runs));
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i].cpus = share == 0 ? cpus
                                : CpuSet(all.begin() + static_cast<ptrdiff_t>(i * share),
                                         all.begin() + static_cast<ptrdiff_t>((i + 1) * share));
    if (gpus.empty()) continue;
    const auto first = gpus.begin() + static_cast<ptrdiff_t>(i * of_run);
    shares[i].gpus = FormatList(std::vector<std::string>(first, first + workers), ",");
  }
  return shares;
}

}  // namespace ddprun::launcher

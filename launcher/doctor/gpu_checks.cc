#include "launcher/doctor/checks.h"

namespace ddprun::launcher {

namespace {

constexpr int kHot = 88;  // degrees Celsius; at about this temperature GPUs lower their clocks

std::string CudaText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string NcclText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Finding CheckGpu(const Gpu& gpu, size_t index) {
  Finding finding{.name = "GPU " + std::to_string(index),
                  .what = DescribeGpu(gpu),
                  .facts = {{"name", gpu.name},
                            {"uuid", gpu.uuid},
                            {"bus_id", gpu.bus_id},
                            {"memory_bytes", gpu.memory_bytes},
                            {"memory_used", gpu.memory_used},
                            {"celsius", gpu.celsius.value_or(-1)},
                            {"watts", gpu.watts.value_or(-1)},
                            {"busy_percent", gpu.busy_percent.value_or(-1)},
                            {"mig_instances", gpu.instances}}};
  if (gpu.mig) {
    finding.verdict = Verdict::kNote;
    finding.what += ", split into " + std::to_string(gpu.instances.size()) + " MIG instances";
    finding.remedy =
        "A process sees one instance: name them in CUDA_VISIBLE_DEVICES and give "
        "--virtual_local_rank.";
  } else if (gpu.celsius.value_or(0) >= kHot) {
    finding.verdict = Verdict::kNote;
    finding.remedy = "It is hot, and will run slower: look at its cooling.";
  } else if (gpu.memory_used > gpu.memory_bytes / 10 || gpu.busy_percent.value_or(0) > 50) {
    finding.verdict = Verdict::kNote;
    finding.remedy = "Somebody uses it: nvidia-smi says who.";
  }
  return finding;
}

// Counts the GPUs that CUDA_VISIBLE_DEVICES leaves visible.
Finding CheckVisible(const NvidiaDriver& driver,
                     const std::optional<std::string>& visible,
                     const IntendedUse& use) {
  const int count = CountVisibleGpus(driver.gpus, visible);
  Finding finding{.name = "driver",
                  .what = driver.version + ", for CUDA up to " + CudaText(driver.cuda) + "; " +
                          std::to_string(count) + " of " + std::to_string(driver.gpus.size()) +
                          " GPUs visible",
                  .facts = {{"version", driver.version},
                            {"cuda", driver.cuda},
                            {"gpus", driver.gpus.size()},
                            {"visible", count}}};
  if (count == 0) finding.verdict = MissingIf(use.gpu);
  if (count == static_cast<int>(driver.gpus.size())) return finding;
  if (visible) finding.remedy = "CUDA_VISIBLE_DEVICES is \"" + *visible + "\".";
  return finding;
}

Finding CheckPeers(const NvidiaDriver& driver) {
  Finding finding{.name = "peer access",
                  .what = "every GPU can read every other's memory",
                  .facts = {{"apart", driver.without_peer_access}}};
  if (driver.without_peer_access.empty()) return finding;
  const auto [a, b] = driver.without_peer_access.front();
  finding.verdict = Verdict::kNote;
  finding.what = std::to_string(driver.without_peer_access.size()) +
                 " pairs of GPUs cannot read each other's "
                 "memory (the first: " +
                 std::to_string(a) + " and " + std::to_string(b) +
                 "): NCCL goes through the host there";
  finding.remedy =
      "nvidia-smi topo -m shows how they are connected; IOMMU and ACS settings of the "
      "machine can be the reason.";
  return finding;
}

// Checks whether the trainer's CUDA module is there and fits the driver.
Finding CheckModule(const TrainerFacts& trainer, int driver_cuda, Verdict verdict) {
  Finding finding{
      .name = "CUDA module",
      .what = trainer.module,
      .facts = {{"path", trainer.module}, {"cuda", trainer.cuda}, {"nccl", trainer.nccl}}};
  std::string missing;
  for (const LoadedLibrary& library : trainer.module_libraries) {
    if (library.path.empty()) missing += (missing.empty() ? "" : ", ") + library.name;
  }
  if (trainer.module.empty()) {
    finding.what = "not there: ddp-trainer trains on CPUs";
    finding.remedy = "scripts/setup.sh --cuda (4 GB), then build again: libddprun_cuda.so";
  } else if (!missing.empty()) {
    finding.what += " does not load, not found: " + missing;
    finding.remedy = "scripts/setup.sh --cuda installs what it needs.";
  } else if (driver_cuda > 0 && driver_cuda / 1000 < trainer.cuda / 1000) {
    finding.what = "needs CUDA " + CudaText(trainer.cuda) + ", but the driver serves up to " +
                   CudaText(driver_cuda);
    finding.remedy =
        "Install a newer driver (CUDA 13: 580 or newer), or a LibTorch for the older "
        "CUDA.";
  } else {
    finding.verdict = Verdict::kOk;
    finding.what = "CUDA " + CudaText(trainer.cuda) + ", NCCL " + NcclText(trainer.nccl) + ", " +
                   trainer.module;
    return finding;
  }
  finding.verdict = verdict;
  return finding;
}

}  // namespace

std::vector<Finding> CheckGpus(const Result<NvidiaDriver>& driver,
                               const std::optional<std::string>& visible,
                               const TrainerFacts& trainer,
                               const IntendedUse& use) {
  std::vector<Finding> findings;
  const bool any = driver && !driver->gpus.empty();
  if (driver) {
    findings.push_back(CheckVisible(*driver, visible, use));
    for (size_t i = 0; i < driver->gpus.size(); ++i) {
      findings.push_back(CheckGpu(driver->gpus[i], i));
    }
    if (driver->gpus.size() > 1) findings.push_back(CheckPeers(*driver));
  } else {
    findings.push_back({.name = "GPUs",
                        .verdict = MissingIf(use.gpu),
                        .what = driver.error().what,
                        .remedy = driver.error().hint});
  }
  // A machine without GPUs does not need the module, unless the user asked for GPUs.
  if (any || use.gpu || !trainer.module.empty()) {
    findings.push_back(CheckModule(trainer, driver ? driver->cuda : 0, MissingIf(use.gpu)));
  }
  return findings;
}

}  // namespace ddprun::launcher

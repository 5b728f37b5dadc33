#include <sys/resource.h>
#include <sys/statvfs.h>

#include <fstream>

#include "base/cpus.h"
#include "base/text.h"
#include "launcher/cli/device_count.h"
#include "launcher/doctor/checks.h"

namespace ddprun::launcher {

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

ProcessLimit ReadLimit(__rlimit_resource resource) {
  rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0) return {};
  const auto number = [](rlim_t value) {
    return value == RLIM_INFINITY ? int64_t{-1} : static_cast<int64_t>(value);
  };
  return {.soft = number(limit.rlim_cur), .hard = number(limit.rlim_max)};
}

std::string LimitText(int64_t limit) {
  return limit < 0 ? "no limit" : std::to_string(limit);
}

Finding CheckLimit(const char* name, const ProcessLimit& limit, int64_t enough, const char* flag) {
  Finding finding{.name = name,
                  .what = LimitText(limit.soft),
                  .facts = {{"now", limit.soft}, {"most", limit.hard}}};
  if (limit.soft < 0 || limit.soft >= enough) return finding;
  finding.verdict = Verdict::kNote;
  finding.what += ", few for many ranks and data files";
  const bool may = limit.hard < 0 || limit.hard >= enough;
  finding.remedy = std::string("ulimit ") + flag + " " + std::to_string(enough) +
                   (may ? "" : ", which root must allow first (/etc/security/limits.conf)");
  return finding;
}

Finding CheckCores(const MachineFacts& facts) {
  Finding finding{.name = "cores",
                  .what = std::to_string(facts.cores) + " of " + std::to_string(facts.processors) +
                          " processors, " + CountText(facts.numa_nodes, "NUMA node"),
                  .facts = {{"usable", facts.cores},
                            {"processors", facts.processors},
                            {"numa_nodes", facts.numa_nodes}}};
  if (facts.cores < facts.processors) {
    finding.verdict = Verdict::kNote;
    finding.remedy =
        "The affinity mask (taskset) or the cgroup's CPU quota (docker run --cpus) "
        "leaves no more.";
  } else if (facts.numa_nodes > 1) {
    finding.remedy = "ddprun --numa_binding=node keeps each worker near its GPU or memory.";
  }
  return finding;
}

Finding CheckMemory(const MachineFacts& facts) {
  Finding finding{.name = "memory", .what = "unknown: /proc/meminfo cannot be read"};
  if (!facts.memory) {
    finding.verdict = Verdict::kNote;
    return finding;
  }
  finding.what =
      FormatBytes(facts.memory->bytes) +
      (facts.memory->of_cgroup ? ", the limit of the cgroup" : "") +
      (facts.free_memory ? "; " + FormatBytes(*facts.free_memory) + " free on the machine" : "");
  finding.facts = {{"bytes", facts.memory->bytes},
                   {"of_cgroup", facts.memory->of_cgroup},
                   {"free", facts.free_memory.value_or(-1)}};
  if (facts.memory->bytes < kGiB) {
    finding.verdict = Verdict::kNote;
    finding.remedy = "A rank of ddp-trainer takes 0.2 GiB before its model: give more memory.";
  }
  return finding;
}

Finding CheckSharedMemory(const MachineFacts& facts) {
  Finding finding{.name = "/dev/shm", .facts = {{"bytes", facts.shared_memory.value_or(0)}}};
  finding.what = facts.shared_memory ? FormatBytes(*facts.shared_memory) : "not there";
  if (facts.shared_memory.value_or(0) >= kGiB) return finding;
  finding.verdict = Verdict::kNote;
  finding.what += ", little for NCCL and PyTorch's data loaders; ddp-trainer on CPUs needs none";
  finding.remedy =
      "docker run --shm-size=8g or --ipc=host; elsewhere, as root: mount -o "
      "remount,size=8g /dev/shm";
  return finding;
}

}  // namespace

std::optional<int64_t> ReadFreeMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kib = 0;
  for (std::string unit; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return std::nullopt;
}

MachineFacts ReadMachine(const Environment& env) {
  const CpuTopology topology = ReadCpuTopology(env, AllowedCpus());
  MachineFacts facts{.cores = UsableCores(),
                     .processors = CoreCount(),
                     .numa_nodes = static_cast<int>(topology.nodes.size()),
                     .memory = ReadMemoryLimit(),
                     .free_memory = ReadFreeMemory(),
                     .open_files = ReadLimit(RLIMIT_NOFILE),
                     .processes = ReadLimit(RLIMIT_NPROC),
                     .locked_memory = ReadLimit(RLIMIT_MEMLOCK)};
  struct statvfs file_system = {};
  if (::statvfs("/dev/shm", &file_system) == 0) {
    facts.shared_memory = static_cast<int64_t>(file_system.f_blocks * file_system.f_frsize);
  }
  return facts;
}

std::vector<Finding> CheckMachine(const MachineFacts& facts) {
  return {CheckCores(facts), CheckMemory(facts), CheckSharedMemory(facts),
          CheckLimit("open files", facts.open_files, 1024, "-n"),
          CheckLimit("processes", facts.processes, 1024, "-u")};
}

}  // namespace ddprun::launcher

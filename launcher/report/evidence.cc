#include "launcher/report/evidence.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/text.h"

namespace ddprun::launcher {

void Evidence::Add(std::vector<WorkerRecord>& workers) {
  const MemoryEvidence memory = memory_.ReadEvidence();
  const CorePolicy core = ReadCorePolicy();
  for (WorkerRecord& worker : workers) {
    if (!worker.exit || ExitCode(*worker.exit) == 0) continue;
    worker.out_of_memory = ExplainOutOfMemory(worker, memory);
    if (const auto* signaled = std::get_if<Signaled>(&*worker.exit)) {
      worker.core_dump = ExplainCoreDump(*signaled, worker.pid, core);
    }
  }
}

void Evidence::AddGpus(std::vector<WorkerRecord>& workers) {
  std::optional<Result<NvidiaDriver>> driver;
  for (WorkerRecord& worker : workers) {
    if (worker.gpu_bus_id.empty() || worker.told_to_stop) continue;
    if (!worker.exit || ExitCode(*worker.exit) == 0) continue;
    if (!driver) driver.emplace(QueryNvidiaDriver());
    worker.gpu = ExplainGpu(worker.gpu_bus_id, *driver);
  }
}

namespace {

// Returns "0000:3b:00.0" of "00000000:3B:00.0", because CUDA and the driver write it differently.
std::string BusKey(const std::string& bus_id) {
  constexpr size_t kLength = 12;
  return ToAsciiLower(bus_id).substr(bus_id.size() - std::min(kLength, bus_id.size()));
}

// Signals that dump core by default; see signal(7).
constexpr std::array kCoreSignals = {SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                                     SIGFPE,  SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};

// A program that takes core dumps through a pipe. `name` is a part of its path.
struct Collector {
  std::string_view name;
  std::string_view ask;
};
constexpr std::array<Collector, 3> kCollectors = {{
    {"systemd-coredump", "`coredumpctl info PID` shows it, `coredumpctl debug PID` opens it"},
    {"apport", "apport may have kept it in /var/crash or /var/lib/apport/coredump"},
    {"abrt", "`abrt list` shows it"},
}};

std::string WithPid(std::string text, pid_t pid) {
  const size_t at = text.find("PID");
  if (at == std::string::npos) return text;
  text.replace(at, 3, std::to_string(pid));
  return WithPid(std::move(text), pid);
}

std::string DescribeCollector(std::string_view command, pid_t pid) {
  for (const Collector& collector : kCollectors) {
    if (command.find(collector.name) != std::string_view::npos) {
      return WithPid(std::string(collector.ask), pid);
    }
  }
  return "its core went to " + std::string(command.substr(0, command.find(' ')));
}

// Returns the file name by the rules of core(5), with * for parts that only the kernel knows.
std::string FileName(pid_t pid, const CorePolicy& policy) {
  const std::string pattern = policy.pattern.empty() ? "core" : policy.pattern;
  std::string name;
  bool has_pid = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      name += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case '%':
        name += '%';
        break;
      case 'p':
        has_pid = true;
        name += std::to_string(pid);
        break;
      case 'h':
        name += policy.host;
        break;
      default:
        name += '*';
    }
  }
  if (policy.uses_pid && !has_pid) name += "." + std::to_string(pid);
  return name.starts_with('/') ? name : policy.folder + "/" + name;
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string ExplainCoreDump(const Signaled& exit, pid_t pid, const CorePolicy& policy) {
  if (exit.dumped_core) {
    if (policy.pattern.starts_with('|')) return DescribeCollector(policy.pattern.substr(1), pid);
    return "its core should be " + FileName(pid, policy);
  }
  if (std::find(kCoreSignals.begin(), kCoreSignals.end(), exit.signal) == kCoreSignals.end()) {
    return "";
  }
  if (policy.limit_bytes == 0) {
    return "no core was dumped; `ulimit -c unlimited` before ddprun would give one";
  }
  return "no core was dumped, although `ulimit -c` allows it: core_pattern is " +
         (policy.pattern.empty() ? "empty" : policy.pattern);
}

std::string ExplainGpu(const std::string& bus_id, const Result<NvidiaDriver>& driver) {
  if (!driver) return bus_id + ": " + driver.error().what.substr(0, driver.error().what.find('\n'));
  const auto gpu = std::ranges::find_if(driver->gpus, [&](const Gpu& candidate) {
    return BusKey(candidate.bus_id) == BusKey(bus_id);
  });
  if (gpu == driver->gpus.end()) {
    return bus_id + ": the driver does not list it any more; dmesg has lines with Xid that say why";
  }
  return bus_id + ": " + DescribeGpu(*gpu);
}

CorePolicy ReadCorePolicy() {
  CorePolicy policy;
  policy.pattern = FirstLine("/proc/sys/kernel/core_pattern");
  policy.uses_pid = FirstLine("/proc/sys/kernel/core_uses_pid") == "1";
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) == 0) policy.limit_bytes = limit.rlim_cur;
  std::error_code ignored;
  policy.folder = std::filesystem::current_path(ignored).string();
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) == 0) policy.host = host;
  return policy;
}

}  // namespace ddprun::launcher

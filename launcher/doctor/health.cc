#include "launcher/doctor/health.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/cgroup_memory.h"
#include "base/nvidia_driver.h"
#include "base/text.h"
#include "launcher/cli/device_count.h"
#include "launcher/doctor/checks.h"

namespace ddprun::launcher {

namespace {

// A rank of ddp-trainer takes so much before its model.
constexpr int64_t kLeastMemory = int64_t{200} << 20;

// The file has no name, so nothing is left of it.
bool CanWriteIn(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0)
    return errno == EOPNOTSUPP || errno == EISDIR;  // the file system knows no such file
  const bool written = ::write(file, "x", 1) == 1;
  ::close(file);
  return written;
}

}  // namespace

HealthFacts ReadHealth(const Environment& env) {
  HealthFacts facts{.free_memory = ReadFreeMemory(), .folder = env.GetOr("TMPDIR", "/tmp")};
  if (const auto limit = ReadMemoryLimit(); limit && facts.free_memory) {
    facts.free_memory = std::min(*facts.free_memory, limit->bytes);
  }
  if (const Result<NvidiaDriver> driver = QueryNvidiaDriver()) {
    facts.gpus = CountVisibleGpus(driver->gpus, env.Get("CUDA_VISIBLE_DEVICES"));
  }
  facts.can_write = CanWriteIn(facts.folder);
  return facts;
}

std::string FindFault(const HealthFacts& at_start, const HealthFacts& now) {
  if (at_start.gpus.value_or(0) > now.gpus.value_or(0)) {
    return "GPUs that answer: " + std::to_string(now.gpus.value_or(0)) + ", and there were " +
           std::to_string(*at_start.gpus) + " at the start";
  }
  if (now.free_memory && *now.free_memory < kLeastMemory) {
    return "only " + FormatBytes(*now.free_memory) + " of memory are free, and a rank needs " +
           FormatBytes(kLeastMemory) + " before its model";
  }
  if (!now.can_write) return "no file can be written in " + now.folder;
  return "";
}

std::function<std::string()> WatchHealth(const Environment& env) {
  return [env, at_start = ReadHealth(env)] { return FindFault(at_start, ReadHealth(env)); };
}

}  // namespace ddprun::launcher

#include "base/cpu_list.h"

#include <sched.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <sstream>

#include "base/env.h"

namespace ddprun {

namespace {

// Larger than the kernel's own masks, so that machines with more than 1024 CPUs are read, too.
constexpr int kMaxCpus = 8192;

struct FreeMask {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};
using Mask = std::unique_ptr<cpu_set_t, FreeMask>;

const size_t kMaskSize = CPU_ALLOC_SIZE(kMaxCpus);

Mask EmptyMask() {
  Mask mask(CPU_ALLOC(kMaxCpus));
  CPU_ZERO_S(kMaskSize, mask.get());
  return mask;
}

}  // namespace

CpuSet ParseCpuList(std::string_view text) {
  CpuSet cpus;
  std::stringstream ranges{std::string(text)};
  for (std::string range; std::getline(ranges, range, ',');) {
    const size_t dash = range.find('-');
    const std::optional<int64_t> first = ParseInt(range.substr(0, dash));
    const std::optional<int64_t> last =
        dash == std::string::npos ? first : ParseInt(range.substr(dash + 1));
    if (!first || !last) continue;
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

std::string FormatCpuList(const CpuSet& cpus) {
  std::string text;
  for (auto it = cpus.begin(); it != cpus.end();) {
    const int first = *it;
    int last = first;
    while (++it != cpus.end() && *it == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text;
}

CpuSet AllowedCpus() {
  const Mask mask = EmptyMask();
  CpuSet cpus;
  if (::sched_getaffinity(0, kMaskSize, mask.get()) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(cpu, kMaskSize, mask.get())) cpus.insert(cpu);
    }
  }
  if (cpus.empty()) cpus.insert(0);
  return cpus;
}

Status StayOnCpus(const CpuSet& cpus) {
  const Mask mask = EmptyMask();
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < kMaxCpus) CPU_SET_S(cpu, kMaskSize, mask.get());
  }
  if (::sched_setaffinity(0, kMaskSize, mask.get()) == 0) return {};
  return SystemError("binding to the CPUs " + FormatCpuList(cpus), errno);
}

}  // namespace ddprun

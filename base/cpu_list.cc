#include "base/cpu_list.h"

#include <sched.h>

#include <cerrno>
#include <optional>
#include <sstream>

#include "base/env.h"

namespace ddprun {

namespace {

// Larger than the kernel's own masks, so that machines with more than 1024 CPUs are read, too.
constexpr int kMaxCpus = 8192;

constexpr int kBitsPerWord = 8 * sizeof(unsigned long);

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

std::vector<unsigned long> CpuMask(const CpuSet& cpus) {
  std::vector<unsigned long> words(kMaxCpus / kBitsPerWord);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kMaxCpus) continue;
    words[static_cast<size_t>(cpu / kBitsPerWord)] |= 1UL << (cpu % kBitsPerWord);
  }
  return words;
}

CpuSet AllowedCpus() {
  std::vector<unsigned long> words = CpuMask({});
  CpuSet cpus;
  if (::sched_getaffinity(0, words.size() * sizeof words[0],
                          reinterpret_cast<cpu_set_t*>(words.data())) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if ((words[static_cast<size_t>(cpu / kBitsPerWord)] >> (cpu % kBitsPerWord) & 1) != 0) {
        cpus.insert(cpu);
      }
    }
  }
  if (cpus.empty()) cpus.insert(0);
  return cpus;
}

Status StayOnCpus(const CpuSet& cpus) {
  const std::vector<unsigned long> words = CpuMask(cpus);
  if (::sched_setaffinity(0, words.size() * sizeof words[0],
                          reinterpret_cast<const cpu_set_t*>(words.data())) == 0) {
    return {};
  }
  return SystemError("binding to the CPUs " + FormatCpuList(cpus), errno);
}

}  // namespace ddprun

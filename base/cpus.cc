#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/env.h"

namespace ddprun {

namespace {

// Larger than the kernel's masks, so that sched_getaffinity also works with more than 1024 CPUs.
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

int CoreCount() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void RunOnThreads(int threads, const std::function<void()>& work) {
  DDPRUN_CHECK(threads >= 1);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(guarded);
    guarded();
  }
  if (failure) std::rethrow_exception(failure);
}

void RunInParts(int threads,
                size_t count,
                size_t part,
                const std::function<void(size_t begin, size_t end)>& work) {
  DDPRUN_CHECK(part >= 1);
  std::atomic<size_t> next = 0;
  RunOnThreads(threads, [&] {
    for (size_t begin = next.fetch_add(part); begin < count; begin = next.fetch_add(part)) {
      work(begin, std::min(begin + part, count));
    }
  });
}

}  // namespace ddprun

// The CPUs that this process may use, and work that runs on several of them at once.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun {

using CpuSet = std::set<int>;

// Parses "0-3,8". Parts that are not numbers are ignored.
CpuSet ParseCpuList(std::string_view text);
std::string FormatCpuList(const CpuSet& cpus);

// Returns the mask for sched_setaffinity: bit n is CPU n.
std::vector<unsigned long> CpuMask(const CpuSet& cpus);

// Returns the affinity mask of the calling thread; it is never empty.
CpuSet AllowedCpus();
// Restricts the calling thread, and threads and processes that it starts later, to these CPUs.
Status StayOnCpus(const CpuSet& cpus);

// Returns the number of processors, at least 1.
int CoreCount();

// Runs `work` on `threads` (>= 1) threads at once; the calling thread is one of them. Returns when
// all have ended. If `work` threw on any of them, rethrows the first exception.
void RunOnThreads(int threads, const std::function<void()>& work);

// Runs work(begin, end) for the parts of [0, count), which have at most `part` (>= 1) elements. A
// thread that is free takes the next part. Threads and exceptions: see RunOnThreads.
void RunInParts(int threads,
                size_t count,
                size_t part,
                const std::function<void(size_t begin, size_t end)>& work);

}  // namespace ddprun

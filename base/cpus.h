// The CPUs that this process may use, and the same work on several of them at once.
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

// Parts that are no numbers are left out.
CpuSet ParseCpuList(std::string_view text);
std::string FormatCpuList(const CpuSet& cpus);

// As sched_setaffinity wants it: bit n for CPU n.
std::vector<unsigned long> CpuMask(const CpuSet& cpus);

// The affinity mask of the calling thread; never empty.
CpuSet AllowedCpus();
// Restricts the calling thread, and all that it starts, to these CPUs.
Status StayOnCpus(const CpuSet& cpus);

// As many threads as there are processors; at least 1.
int CoreCount();

// Runs `work` on `threads` (>= 1) threads at once, the calling one among them. Throws the exception
// of one of them, if there was any, when all have ended.
void RunOnThreads(int threads, const std::function<void()>& work);

// Runs work(begin, end) for parts that together are [0, count), `part` (>= 1) at a time, each taken
// by the thread that is free. Otherwise as RunOnThreads.
void RunInParts(int threads,
                size_t count,
                size_t part,
                const std::function<void(size_t begin, size_t end)>& work);

}  // namespace ddprun

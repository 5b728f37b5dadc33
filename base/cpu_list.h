// Sets of CPUs, as the kernel writes them: "0-3,8".
#pragma once

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

}  // namespace ddprun

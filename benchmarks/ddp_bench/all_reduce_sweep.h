// ddp-bench allreduce: sizes against algorithms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/comm/host_process_group.h"

namespace ddprun::bench {

struct AllReduceOptions {
  std::vector<int64_t> sizes;           // bytes, multiples of 4
  std::vector<std::string> algorithms;  // of AlgorithmNames()
  int rounds = 5;                       // the algorithms take turns
  double seconds = 0.1;                 // of each algorithm, size and round
};

std::vector<std::string> AlgorithmNames();

// fp32 sums in memory of the group; prints a table on rank 0. A collective. The result is rank 0's
// times: of a round the median, of those the median.
nlohmann::json SweepAllReduce(trainer::HostProcessGroup& group, const AllReduceOptions& options);

}  // namespace ddprun::bench

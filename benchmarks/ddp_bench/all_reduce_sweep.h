// ddp-bench allreduce: times of all-reduces, by size and algorithm.
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
  int rounds = 5;                       // algorithms take turns in each round
  double seconds = 0.1;                 // for each algorithm, size and round
};

std::vector<std::string> AlgorithmNames();

// A collective. Measures fp32 sums in the group's memory and prints a table on rank 0. The times
// are rank 0's: the median of the rounds' medians.
nlohmann::json SweepAllReduce(HostProcessGroup& group, const AllReduceOptions& options);

}  // namespace ddprun::bench

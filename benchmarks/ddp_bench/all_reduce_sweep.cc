#include "benchmarks/ddp_bench/all_reduce_sweep.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "benchmarks/ddp_bench/table.h"

namespace ddprun::bench {

namespace {

constexpr AllReduceAlgorithm kAll[] = {AllReduceAlgorithm::kDirect,
                                       AllReduceAlgorithm::kReduceBroadcast,
                                       AllReduceAlgorithm::kAllToAll, AllReduceAlgorithm::kRing};

AllReduceAlgorithm AlgorithmNamed(const std::string& name) {
  for (const AllReduceAlgorithm algorithm : kAll) {
    if (trainer::NameOf(algorithm) == name) return algorithm;
  }
  DDPRUN_CHECK(false);
  return AllReduceAlgorithm::kDirect;
}

double Once(HostProcessGroup& group,
            const at::Tensor& tensor,
            c10d::ReduceOp::RedOpType operation = c10d::ReduceOp::SUM) {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  options.reduceOp = operation;
  std::vector<at::Tensor> tensors = {tensor};
  const auto begin = std::chrono::steady_clock::now();
  group.allreduce(tensors, options);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Returns how often to measure; equal on all ranks.
int RoundsFor(HostProcessGroup& group, const at::Tensor& tensor, double seconds) {
  for (int i = 0; i < 5; ++i) Once(group, tensor);
  const at::Tensor estimate = at::full({1}, Once(group, tensor), at::kDouble);
  Once(group, estimate, c10d::ReduceOp::MAX);
  return static_cast<int>(std::clamp(seconds / estimate.item<double>(), 5.0, 20000.0));
}

double MedianSeconds(HostProcessGroup& group, const at::Tensor& tensor, double seconds) {
  const int rounds = RoundsFor(group, tensor, seconds);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(Once(group, tensor));
  return Median(times);
}

}  // namespace

std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names;
  for (const AllReduceAlgorithm algorithm : kAll) names.emplace_back(trainer::NameOf(algorithm));
  return names;
}

nlohmann::json SweepAllReduce(HostProcessGroup& group, const AllReduceOptions& options) {
  std::vector<AllReduceAlgorithm> algorithms;
  for (const std::string& name : options.algorithms) algorithms.push_back(AlgorithmNamed(name));
  std::vector<std::vector<std::string>> table = {
      {"all-reduce, " + std::to_string(group.getSize()) + " ranks"}};
  table[0].insert(table[0].end(), options.algorithms.begin(), options.algorithms.end());
  nlohmann::json results = nlohmann::json::array();
  for (const int64_t bytes : options.sizes) {
    const at::Tensor tensor = group.allocateTensor(bytes / 4, at::kFloat);
    std::vector<std::vector<double>> seconds(algorithms.size());
    for (int round = 0; round < options.rounds; ++round) {
      for (size_t i = 0; i < algorithms.size(); ++i) {
        group.SetAllReduceAlgorithm(algorithms[i]);
        seconds[i].push_back(MedianSeconds(group, tensor, options.seconds));
      }
    }
    std::vector<std::string>& row = table.emplace_back();
    row.push_back(SizeText(static_cast<double>(bytes)));
    for (size_t i = 0; i < algorithms.size(); ++i) {
      row.push_back(TimeText(Median(seconds[i])));
      results.push_back({{"bytes", bytes},
                         {"algorithm", options.algorithms[i]},
                         {"seconds", Median(seconds[i])},
                         {"seconds_all", seconds[i]}});
    }
  }
  group.SetAllReduceAlgorithm(AllReduceAlgorithm::kDirect);
  if (group.getRank() == 0) PrintTable(table);
  return {{"benchmark", "allreduce"}, {"ranks", group.getSize()}, {"results", results}};
}

}  // namespace ddprun::bench

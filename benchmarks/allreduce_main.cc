// Times all_reduce of fp32 tensors through HostProcessGroup; one process per rank, started by a
// launcher. Rank 0 prints one JSON line per size.
//
//   ddprun --nproc_per_node=2 --no_python ddp-allreduce [--staged] [--hierarchical] BYTES...
//
// --staged: ordinary tensors instead of those that the group allocates in shared memory.
// --hierarchical: AllReduceAlgorithm::kHierarchical.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "trainer/comm/bootstrap.h"

namespace {

using ddprun::HostProcessGroup;
using Seconds = std::chrono::duration<double>;

constexpr int kWarmup = 10;

double Once(HostProcessGroup& group, std::vector<at::Tensor>& tensors) {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  const auto begin = std::chrono::steady_clock::now();
  group.allreduce(tensors, options);
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

// About half a second per size, the same number of rounds on every rank.
double MedianSeconds(HostProcessGroup& group, int64_t bytes, bool staged) {
  const int64_t elements = bytes / 4;
  std::vector<at::Tensor> tensors = {staged ? at::zeros({elements})
                                            : group.allocateTensor(elements, at::kFloat)};
  for (int i = 0; i < kWarmup; ++i) Once(group, tensors);
  std::vector<at::Tensor> estimate = {at::full({1}, Once(group, tensors), at::kDouble)};
  c10d::AllreduceOptions slowest;
  slowest.reduceOp = c10d::ReduceOp::MAX;
  group.allreduce(estimate, slowest)->wait();
  const double rounds = std::clamp(0.5 / estimate[0].item<double>(), 11.0, 20000.0);
  std::vector<double> times;
  for (int i = 0; i < static_cast<int>(rounds); ++i) times.push_back(Once(group, tensors));
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

int Run(int argc, char** argv) {
  at::set_num_threads(1);
  const auto environment = ddprun::Environment::OfProcess();
  const auto group = ddprun::trainer::InitProcessGroup(environment, std::chrono::seconds(60));
  bool staged = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--staged") {
      staged = true;
      continue;
    }
    if (argument == "--hierarchical") {
      group->SetAllReduceAlgorithm(ddprun::AllReduceAlgorithm::kHierarchical);
      continue;
    }
    const std::optional<int64_t> bytes = ddprun::ParseInt(argument);
    if (!bytes || *bytes < 4) {
      std::fprintf(stderr, "ddp-allreduce: \"%s\" is no size in bytes of at least 4\n", argv[i]);
      return 2;
    }
    const double seconds = MedianSeconds(*group, *bytes, staged);
    if (group->getRank() == 0) {
      std::printf("{\"bytes\": %ld, \"ranks\": %d, \"staged\": %s, \"seconds_median\": %.9f}\n",
                  static_cast<long>(*bytes), group->getSize(), staged ? "true" : "false", seconds);
      std::fflush(stdout);
    }
  }
  group->barrier({})->wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}

// Collectives among processes, without training: each rank estimates pi from its own share of
// random points, the ranks sum their counts, and the last rank sends the result to the first one.
#include <ATen/Functions.h>

#include <cstdio>

#include <ddprun/error.h>
#include <ddprun/process_group.h>

int Run() {
  const auto group = ddprun::init_process_group();
  const int rank = group->getRank();
  const int last = group->getSize() - 1;

  constexpr int64_t kPoints = 1'000'000;
  at::manual_seed(static_cast<uint64_t>(rank));
  const at::Tensor inside = at::rand({kPoints, 2}).square().sum(1) < 1;
  std::vector<at::Tensor> count = {inside.sum()};
  group->allreduce(count, {})->wait();  // the sum over all ranks, on all ranks

  std::vector<at::Tensor> pi = {at::zeros({1}, at::kDouble)};
  if (rank == last) {
    pi[0][0] = 4.0 * count[0].item<double>() / static_cast<double>(kPoints * group->getSize());
    group->send(pi, /*destination=*/0, /*tag=*/0)->wait();
  }
  if (rank == 0) {
    group->recv(pi, /*source=*/last, /*tag=*/0)->wait();
    std::printf("%d ranks say that pi is about %.3f\n", group->getSize(), pi[0].item<double>());
  }
  return 0;
}

int main() {
  try {
    return Run();
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}

// Ranks as threads with a process group each, and gradients of known sizes.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/compute/math_kernels.h"

namespace ddprun::trainer {

inline at::Tensor Random(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

inline void WithGroup(
    int size, const std::function<void(c10::intrusive_ptr<HostProcessGroup>, int rank)>& body) {
  auto memory = SharedRegion::CreateFile();
  ASSERT_TRUE(memory.has_value());
  // Made at first use behind a guard that the thread sanitizer does not see in LibTorch.
  (void)at::detail::getDefaultCPUGenerator();
  ChooseMathKernels();  // before the ranks, which compute at the same time
  RunRanks(size, [&](int rank) {
    at::init_num_threads();  // else a thread's first products use other threads than later ones
    const auto group = HostProcessGroup::Create(*memory, {.rank = rank, .size = size});
    body(group, rank);
  });
}

}  // namespace ddprun::trainer

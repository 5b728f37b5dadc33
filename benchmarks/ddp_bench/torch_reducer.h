// LibTorch's c10d::Reducer over ddprun's process group, to compare it with ddprun's reducer.
#pragma once

#include <memory>

#include "trainer/comm/host_process_group.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::bench {

// For steps of one micro-batch. Their waiting time for communication is unknown (< 0).
std::unique_ptr<trainer::Strategy> MakeTorchReducer(
    std::shared_ptr<trainer::Model> model,
    std::unique_ptr<Optimizer> optimizer,
    const c10::intrusive_ptr<HostProcessGroup>& group,
    const ddprun::BucketLimits& limits);

}  // namespace ddprun::bench

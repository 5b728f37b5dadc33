// LibTorch's c10d::Reducer over the same process group, to be measured beside the own one.
#pragma once

#include <memory>

#include "trainer/comm/host_process_group.h"
#include "trainer/parallel/strategy.h"

namespace ddprun::bench {

// For steps of one micro-batch; how long they wait for communication is unknown (< 0).
std::unique_ptr<trainer::Strategy> MakeTorchReducer(
    std::shared_ptr<trainer::Model> model,
    std::unique_ptr<trainer::Optimizer> optimizer,
    const c10::intrusive_ptr<trainer::HostProcessGroup>& group,
    const trainer::BucketLimits& limits);

}  // namespace ddprun::bench

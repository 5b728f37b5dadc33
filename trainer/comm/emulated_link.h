// Times of collectives on a network link that is emulated, for studying it on one machine.
#pragma once

#include <atomic>

#include "trainer/comm/control_block.h"

namespace ddprun::trainer {

// Returns the time of the operation of `ranks` ranks, if each has a link of `gigabit` per second in
// each direction, without latency. An all-reduce sends as a ring does, 2 (n - 1) / n of the tensor;
// but kReduceBroadcast brings all tensors to one rank, and n - 1 sums back, and with kAllToAll each
// rank gets all tensors. Pure.
double SecondsOnLink(const OperationHeader& header, int ranks, double gigabit);

// Sleeps so long, as if a network card worked meanwhile, or until it is cancelled.
void WaitOnLink(double seconds, const std::atomic<bool>& cancelled);

}  // namespace ddprun::trainer

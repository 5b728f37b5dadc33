// The next generation of a group, after a rank was lost and is being replaced.
#pragma once

#include <memory>

#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/node_stream.h"

namespace ddprun::trainer {

// Returns a function that throws Failure (kRankLost) if a rank is lost in the options' generation.
HostProcessGroup::Options::Check LossCheck(const HostProcessGroup::Options& options);

// Makes the next generation of a group of all ranks. Waits for the ranks of other nodes, if there
// are any; if another rank is lost meanwhile, makes a later generation.
std::shared_ptr<HostProcessGroupCore> RenewedCore(const HostProcessGroupCore& before);

// Returns a function that broadcasts bytes of `root` to the ranks that take them. A collective: on
// the other ranks `data` only says how many bytes there are.
PassBytes PassOverNodes(HostProcessGroupCore& core, int root, bool takes);

}  // namespace ddprun::trainer

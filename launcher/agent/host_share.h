// The environment of a worker whose host has several agents of the job.
#pragma once

#include "base/env.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

// Gives the worker its place among all workers of the host. Removes the node's memory, which only
// workers of one agent share: those of a host exchange a memory of their own through the store.
void SetHostShare(const HostShare& share, Environment& env);

}  // namespace ddprun::launcher

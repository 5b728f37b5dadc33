// Asks the trainer what is wrong with a config before anything of it is started.
#pragma once

#include <vector>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/sweep/sweep_plan.h"

namespace ddprun::launcher {

// Runs `ddp-trainer check` for `workers` ranks on each node, with each of `runs` at once (none: the
// config as it is). Returns its exit code, or 128 + n when signal n stopped it; what it says goes
// to stderr. REQUIRES: `target` is a trainer config; no other thread runs.
Result<int> CheckConfig(const Options& options,
                        const Target& target,
                        int workers,
                        const std::vector<SweepRun>& runs);

}  // namespace ddprun::launcher

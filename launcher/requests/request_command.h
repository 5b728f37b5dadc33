// `ddprun save` and `ddprun stop` ask a running run of ddp-trainer for a checkpoint, or for its
// end.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Runs "ddprun save `args`" or "ddprun stop `args`": puts a file into the run's folder.
Result<int> RunSave(const std::vector<std::string>& args, const Environment& env);
Result<int> RunStop(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

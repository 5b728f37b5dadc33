// What flags mean and may be together, after each has been read alone.
#pragma once

#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

// Fills in what follows from other flags (--standalone, a static --rdzv_endpoint) and adds to
// `options.notes`. Errors are kUsage and name flag, value and what was expected.
Status CheckTogether(Options& options);

}  // namespace ddprun::launcher

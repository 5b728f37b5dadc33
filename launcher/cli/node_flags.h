// The flags by which a node of a running job would join it again.
#pragma once

#include <string>

#include "launcher/cli/options.h"

namespace ddprun::launcher {

// Returns the flags by which this node meets the others, for a shell, each with a blank behind it;
// "" for a single node. In a cluster these are the flags that the user has given: a new step fills
// in the rest. REQUIRES: `options` are of ParseOptions().
std::string NodeFlagsText(const Options& options);

}  // namespace ddprun::launcher

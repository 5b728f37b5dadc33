// ddprun --version.
#pragma once

#include <string>

#include "base/env.h"

namespace ddprun::launcher {

// ddprun's own, whose command line it follows, the compiler's, and those of the ddp-trainer that
// trainer configs would run with (asked for; at most two seconds).
std::string VersionsText(const Environment& env, const std::string& own_folder);

}  // namespace ddprun::launcher

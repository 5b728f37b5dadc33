// ddprun(1), made from the table of flags.
#pragma once

#include <span>
#include <string>

#include "launcher/cli/flag.h"

namespace ddprun::launcher {

// In the man macros of roff.
std::string ManPage(std::span<const Flag> flags);

}  // namespace ddprun::launcher

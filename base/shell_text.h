// Words of commands that a program prints for its user.
#pragma once

#include <string>

namespace ddprun {

// Returns the text as one word of a POSIX shell, in quotes only where it needs them.
std::string QuoteForShell(const std::string& text);

}  // namespace ddprun

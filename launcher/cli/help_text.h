// ddprun --help.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/flag.h"

namespace ddprun::launcher {

// At most 80 columns wide.
std::string HelpText(std::span<const Flag> flags);

// "-t, --tee WHICH"; short names that stand for other launchers' are left out but for the first.
std::string FlagSynopsis(const Flag& flag);

// The words of `text` in lines of at most `width` columns.
std::vector<std::string> WrapText(std::string_view text, size_t width);

}  // namespace ddprun::launcher

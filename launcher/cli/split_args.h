// The words of the command line: which are flags, which are their values, where the target begins.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/flag.h"

namespace ddprun::launcher {

struct GivenFlag {
  Flag flag;
  std::string value;  // of a switch without one: "1"
};

struct SplitArgs {
  std::vector<GivenFlag> flags;  // in their order
  size_t target_index = 0;       // into the arguments; their number when there is none
};

// As argparse has it: --flag value, --flag=value, -f value, -fvalue, dashes or underscores, unique
// prefixes, "--". Prefixes that are unique among torchrun's flags mean those. Errors are kUsage.
Result<SplitArgs> SplitFlags(const std::vector<std::string>& args, std::span<const Flag> flags);

}  // namespace ddprun::launcher

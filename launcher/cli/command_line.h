// From words to Options: which are flags and which their values, what other launchers call them,
// what
// --rdzv_conf says, and what does not go together.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/cli/flag.h"
#include "launcher/cli/options.h"

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

struct KnownFlags {
  std::string_view words;   // without dashes, with underscores, separated by blanks
  std::string_view answer;  // sentences for the user
};

std::span<const KnownFlags> AllKnownFlags();

// `name`: canonical, as in the table. Empty: no other launcher's that is known here.
std::string_view AnswerFor(std::string_view name);

// kUsage, of the flag or variable `where`.
Error BadValue(std::string where, std::string what, std::string hint = "");

// "k=v,k=v" into `out`; false when a key or a value is missing.
bool SplitRdzvConf(std::string_view text, std::map<std::string, std::string>& out);

// Reads options.rdzv_conf into options.rdzv. Refuses keys that nobody knows and values of the wrong
// kind; keys that only etcd has get a line for the user.
Status ReadRdzvConf(Options& options);

// Fills in what follows from other flags (--standalone, a static --rdzv_endpoint) and adds to
// `options.notes`. Errors are kUsage and name flag, value and what was expected.
Status CheckTogether(Options& options);

}  // namespace ddprun::launcher

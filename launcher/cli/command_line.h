// Parts of ParseOptions(): splits words into flags and values, knows other launchers' flags, reads
// --rdzv_conf, and checks flags together.
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
  std::string value;  // "1" for a switch without a value
};

struct SplitArgs {
  std::vector<GivenFlag> flags;  // in the order of the arguments
  size_t target_index = 0;       // into the arguments; args.size() means no target
};

// Splits as argparse does: --flag value, --flag=value, -f value, -fvalue, dashes or underscores,
// unique prefixes, "--". A prefix that is unique in torchrun means torchrun's flag. kUsage errors.
Result<SplitArgs> SplitFlags(const std::vector<std::string>& args, std::span<const Flag> flags);

struct KnownFlags {
  std::string_view words;   // flags' names without dashes before them, separated by blanks
  std::string_view answer;  // sentences for the user
};

std::span<const KnownFlags> AllKnownFlags();

// Returns the answer for another launcher's flag; "" means unknown. `name` is as in the table.
std::string_view AnswerFor(std::string_view name);

// Returns a kUsage error. `where` is the flag or variable.
Error BadValue(std::string where, std::string what, std::string hint = "");

// Returns a kUsage error about flags that do not go together.
Error Contradict(std::string what, std::string hint);

// Splits "k=v,k=v" into `out`. Returns false if a key or a value is missing.
bool SplitRdzvConf(std::string_view text, std::map<std::string, std::string>& out);

// Reads options.rdzv_conf into options.rdzv. Unknown keys and bad values are errors; keys that only
// etcd has get a line in options.notes.
Status ReadRdzvConf(Options& options);

// Checks flags together, fills in values that follow from other flags (--standalone, a static
// --rdzv_endpoint), and adds to options.notes. Errors are kUsage.
Status CheckTogether(Options& options);

}  // namespace ddprun::launcher

// Splits the command line of `ddprun submit` into options of sbatch and options of ddprun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct SubmitWords {
  std::vector<std::string> sbatch;  // "--nodes=2": with long names, in their order
  std::vector<std::string> ddprun;  // with long names, in their order
  std::vector<std::string> target;  // TARGET and its arguments
  bool elastic = false;             // --nnodes=MIN:MAX
  bool dry_run = false;
  bool follow = false;
  bool help = false;

  // Returns whether one of these options of sbatch is given: "requeue no-requeue".
  bool HasAny(std::string_view names) const;
};

// Splits as SplitFlags() does. A letter is sbatch's. --nnodes becomes sbatch's --nodes. kUsage
// errors: an option that neither program knows, or that has no place in a batch file.
Result<SubmitWords> SplitSubmit(const std::vector<std::string>& args);

// Returns 4h, 90m, 1d12h or 30s in sbatch's form, DAYS-HOURS:MINUTES:SECONDS, and any other text as
// it is.
std::string SlurmTime(const std::string& text);

}  // namespace ddprun::launcher

// Splits the command line of `ddprun submit` into options of sbatch and options of ddprun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct SubmitWords {
  std::vector<std::string> sbatch;  // "--nodes=2": with long names, in their order
  std::vector<std::string> ddprun;  // with long names, in their order
  std::vector<std::string> target;  // TARGET and its arguments
  bool outlives_nodes = false;      // --nnodes=MIN:MAX, or --spares
  bool dry_run = false;
  bool follow = false;
  bool help = false;

  // Returns whether one of these options of sbatch is given: "requeue no-requeue".
  bool HasAny(std::string_view names) const;
  // Returns the number of nodes of the job, with spares; nullopt if sbatch may choose it.
  std::optional<int64_t> Nodes() const;
};

// Returns the value of an option "--NAME=VALUE" among the words; "" if it is not there.
std::string ValueAmong(const std::vector<std::string>& words, std::string_view name);

// Splits as SplitFlags() does. A letter is sbatch's. --nnodes becomes sbatch's --nodes, which
// counts spares, too. kUsage errors: an option that neither program knows, or that has no place in
// a batch file, and numbers of tasks, nodes and workers that do not fit each other.
Result<SubmitWords> SplitSubmit(const std::vector<std::string>& args);

// Returns 4h, 90m, 1d12h or 30s in sbatch's form, DAYS-HOURS:MINUTES:SECONDS, and any other text as
// it is.
std::string SlurmTime(const std::string& text);

}  // namespace ddprun::launcher

// ddprun --dry_run: what would be started, as text that a shell can run.
#pragma once

#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "base/env.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"

namespace ddprun::launcher {

struct DryRun {
  const Options& options;
  const Target& target;
  const Environment& env;  // of this process
  int local_world_size = 1;
  int usable_cores = 1;
  std::vector<CpuSet> cpus = {};  // of each local rank; empty: not bound
};

// For each local rank its command and the variables that ddprun sets. What is only settled at the
// start (ports, folders, ranks under c10d) is shown as <...> or said in a comment.
std::string DryRunText(const DryRun& run);

// `text` as one word of a POSIX shell.
std::string ShellQuoted(const std::string& text);

}  // namespace ddprun::launcher

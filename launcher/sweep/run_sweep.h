// ddprun --sweep: does the runs of a sweep, one after the other or some at the same time, and
// writes their table.
#pragma once

#include <functional>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/sweep/sweep_plan.h"

namespace ddprun::launcher {

struct SweepJob {
  Options options;  // as given, with --sweep and a trainer config as target
  int workers = 1;
  // Checks all runs and prints their errors. If it does not return 0, no run begins.
  std::function<Result<int>(const std::vector<SweepRun>&)> check;
  // Does one run, called in a child process. Returns its exit code.
  std::function<Result<int>(Options, const Environment&)> run;
  Environment env = {};
};

inline SweepChoice SweepChoiceOf(const Options& options) {
  return {.runs = options.sweep_runs, .seed = static_cast<uint64_t>(options.sweep_seed)};
}

// Skips runs that are marked as finished in the sweep's folder: sweeps/ and the config's name, or
// run.output_dir of --set. A failed run does not stop the others; SIGINT, SIGTERM, SIGHUP, SIGQUIT
// do. Returns the exit code of the first failed run, or kUsage. REQUIRES: no other thread.
Result<int> RunSweep(SweepJob job);

}  // namespace ddprun::launcher

// ddprun --sweep: the runs of a sweep one after the other, and the table at the end.
#pragma once

#include <functional>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/sweep/sweep_run.h"

namespace ddprun::launcher {

struct SweepJob {
  Options options;  // as given, with --sweep and a trainer config as target
  int workers = 1;
  // Says what is wrong with any of the runs; 0, or the exit code with which nothing is begun.
  std::function<Result<int>(const std::vector<SweepRun>&)> check;
  // One run, in a process of its own, with everything that ddprun does; returns its exit code.
  std::function<int(Options)> run;
};

// Runs that have finished before, in the same folder with the same config, overrides and number of
// workers, are not done again; failed ones do not stop the others, SIGINT, SIGTERM and SIGHUP do.
// The folder is sweeps/ and the config's name, or run.output_dir where --set gives one. Returns the
// exit code: the first failed run's. Errors are kUsage. Forks: no other thread may run.
Result<int> RunSweep(SweepJob job);

}  // namespace ddprun::launcher

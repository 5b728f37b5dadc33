#include "launcher/cli/device_count.h"
#include "launcher/cli/target.h"
#include "launcher/commands.h"
#include "launcher/sweep/run_sweep.h"

namespace ddprun::launcher {

Result<int> SweepConfig(Options options, const Environment& env, RunFunction run) {
  // Errors that all runs share are shown once.
  DDPRUN_ASSIGN(const Target target, ResolveTarget(options, env, ProgramFolder()));
  DDPRUN_ASSIGN(const int workers, CountWorkersHere(options.nproc_per_node, env));
  const auto check = [&](const std::vector<SweepRun>& runs) {
    return CheckConfig(options, target, workers, runs);
  };
  return RunSweep({.options = options, .workers = workers, .check = check, .run = run, .env = env});
}

}  // namespace ddprun::launcher

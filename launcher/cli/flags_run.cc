// Flags that say what to run, and flags for trainer configs.
#include <limits>

#include "launcher/cli/flag.h"
#include "launcher/cli/preload.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

bool Append(std::string_view text, std::vector<std::string>& to) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  to.emplace_back(text);
  return true;
}

}  // namespace

std::vector<Flag> RunFlags() {
  return {
      {.name = "module",
       .short_names = "m",
       .variable = "PET_MODULE",
       .help = "TARGET is a Python module, as with python -m",
       .read = [](std::string_view text, Options& o) { return ReadSwitch(text, o.module); }},
      {.name = "no_python",
       .variable = "PET_NO_PYTHON",
       .help = "Run TARGET as it is, whatever its name ends in",
       .read = [](std::string_view text, Options& o) { return ReadSwitch(text, o.no_python); }},
      {.name = "run_path",
       .variable = "PET_RUN_PATH",
       .help = "Run the Python script TARGET with runpy.run_path; wins over --no_python",
       .read = [](std::string_view text, Options& o) { return ReadSwitch(text, o.run_path); }},
      {.name = "use_env",
       .help = "Scripts read LOCAL_RANK from the environment (default). --use_env=0 also passes "
               "--local-rank=N, as python -m torch.distributed.launch does",
       .read = [](std::string_view text,
                  Options& o) { return ReadSwitch(text, o.use_env.emplace()); }},
      {.name = "preload",
       .value = "MODULE",
       .of_torchrun = false,
       .help = "Import these Python modules once on a node and fork the workers, as --preload "
               "torch,numpy: they start faster",
       .expected = "names of Python modules, separated by commas",
       .read = [](std::string_view text, Options& o) { return ReadModules(text, o.preload); }},
      {.name = "dry_run",
       .of_torchrun = false,
       .help = "Check the config, print the commands and variables of all workers, start nothing",
       .read = [](std::string_view text, Options& o) { return ReadSwitch(text, o.dry_run); }},
  };
}

std::vector<Flag> TrainerFlags() {
  return {
      {.name = "set",
       .value = "KEY=VALUE",
       .of_torchrun = false,
       .help = "Override a key of the config, as --set optimizer.learning_rate=1e-4; repeatable",
       .expected = "a key of the config, = and a value, as in optimizer.learning_rate=1e-4",
       .read = [](std::string_view text, Options& o) { return Append(text, o.overrides); }},
      {.name = "resume",
       .value = "RUN",
       .of_torchrun = false,
       .help = "Go on with the run in folder RUN from its newest checkpoint, or from the "
               "checkpoint RUN itself; TARGET is then the run's own config, if none is given",
       .expected = "a run folder, as runs/NAME",
       .completion = Completion::kFolder,
       .read = [](std::string_view text, Options& o) { return ReadText(text, o.resume); }},
      {.name = "sweep",
       .value = "KEY=V1,V2",
       .of_torchrun = false,
       .help = "Train once per value, one run after the other, and compare the runs in a table; "
               "repeatable: all combinations. A value may be a range: uniform(A,B), "
               "loguniform(A,B), integers(A,B)",
       .expected = "a key of the config, = and values separated by commas, as in "
                   "optimizer.learning_rate=1e-4,3e-4",
       .read = [](std::string_view text, Options& o) { return Append(text, o.sweep); }},
      {.name = "sweep_runs",
       .value = "N",
       .of_torchrun = false,
       .help = "So many runs of a sweep with ranges; each draws a value of every swept key",
       .expected = "a number from 1 to 10000",
       .read = [](std::string_view text,
                  Options& o) { return ReadBounded(text, 1, 10'000, o.sweep_runs); }},
      {.name = "sweep_jobs",
       .value = "N",
       .of_torchrun = false,
       .help = "So many runs of a sweep at the same time, each with its share of the cores and the "
               "GPUs (default 1)",
       .expected = "a number from 1 to 1024",
       .read = [](std::string_view text,
                  Options& o) { return ReadBounded(text, 1, 1024, o.sweep_jobs); }},
      {.name = "sweep_seed",
       .value = "N",
       .of_torchrun = false,
       .help = "Seed of these draws (default 0)",
       .expected = "a number from 0",
       .read =
           [](std::string_view text, Options& o) {
             return ReadBounded(text, 0, std::numeric_limits<int64_t>::max(), o.sweep_seed);
           }},
  };
}

}  // namespace ddprun::launcher

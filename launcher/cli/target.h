// What TARGET means and what has to be executed for it, checked before anything is started.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

struct Target {
  std::string name;     // as the user wrote it, for messages
  std::string program;  // path for execve
  // argv of every worker before ${local_rank} is put in; of the template for a trainer config.
  std::vector<std::string> argv;
  bool is_trainer_config = false;
  bool is_python = false;  // `program` is a Python that runs a script or module
};

// `own_folder` holds this executable; ddp-trainer is looked for there unless $DDPRUN_TRAINER says
// otherwise. Errors: kNotFound, kNotExecutable; kUsage for a config file that is missing.
Result<Target> ResolveTarget(const Options& options,
                             const Environment& env,
                             const std::string& own_folder);

// Of this program's file.
std::string OwnFolder();

// The ddp-trainer of trainer configs.
Result<std::string> FindTrainer(const Environment& env, const std::string& own_folder);

// The path of `name`: itself when it has a slash, else the first executable in PATH, else one in
// the current folder (torchrun's scripts are relative to it). kNotFound or kNotExecutable.
Result<std::string> FindProgram(const std::string& name, const Environment& env);

// A file of almost the same name beside `path`, as a hint that starts with "Did you mean"; empty
// when there is none.
std::string SimilarFileHint(const std::string& path);

}  // namespace ddprun::launcher

// Finds and checks what to execute for TARGET, before ddprun starts a process.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

struct Target {
  std::string name;               // as the user wrote it, for messages
  std::string program;            // path for execve
  std::vector<std::string> argv;  // of each worker, before ${local_rank} is replaced
  // Command of the process that forks the workers; empty means that `program` is started for each.
  std::vector<std::string> template_argv = {};
  std::string template_text = {};  // that process, for people
  bool is_trainer_config = false;
  bool is_python = false;  // `program` is a Python that runs a script or module
};

// `program_folder` is ProgramFolder(). Errors: kNotFound, kNotExecutable; kUsage for a missing
// config file.
Result<Target> ResolveTarget(const Options& options,
                             const Environment& env,
                             const std::string& program_folder);

// Returns the folder of this program's file.
std::string ProgramFolder();

// Finds ddp-trainer: $DDPRUN_TRAINER, else in `program_folder`, else in PATH.
Result<std::string> FindTrainer(const Environment& env, const std::string& program_folder);

// Returns `name` if it has a slash, else the first executable in PATH, else one in the current
// folder (torchrun's scripts are relative to it). Errors: kNotFound, kNotExecutable.
Result<std::string> FindProgram(const std::string& name, const Environment& env);

// Returns "Did you mean ..." if a file beside `path` has almost the same name; else "".
std::string SimilarFileHint(const std::string& path);

}  // namespace ddprun::launcher

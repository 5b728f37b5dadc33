// Finds a program as execvp does, with the reasons when it cannot be run.
#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// The path of `name`: itself when it has a slash, else the first executable in PATH, else one in
// the current folder (torchrun's scripts are relative to it). kNotFound or kNotExecutable.
Result<std::string> FindProgram(const std::string& name, const Environment& env);

// A file of almost the same name beside `path`, as a hint that starts with "Did you mean"; empty
// when there is none.
std::string SimilarFileHint(const std::string& path);

}  // namespace ddprun::launcher

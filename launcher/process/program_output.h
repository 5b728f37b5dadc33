// Runs another program and reads its output.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"

namespace ddprun::launcher {

// Returns the texts as execve() wants them. They live as long as `texts`.
std::vector<char*> CStrings(const std::vector<std::string>& texts);

struct ProgramOutput {
  int status = 0;  // as waitpid() returns it
  std::string text;
};

// Runs the program at args[0], a path, in `env`, and kills it after `patience`. Returns its stdout,
// with stderr if `with_stderr`; nullopt means that it did not start or took too long.
std::optional<ProgramOutput> RunForOutput(const std::vector<std::string>& args,
                                          const Environment& env,
                                          bool with_stderr,
                                          std::chrono::milliseconds patience);

}  // namespace ddprun::launcher

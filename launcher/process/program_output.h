// What another program prints.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"

namespace ddprun::launcher {

// The texts as execve wants them, which live as long as `texts`.
std::vector<char*> Pointers(const std::vector<std::string>& texts);

struct ProgramOutput {
  int status = 0;  // as waitpid tells it
  std::string text;
};

// Of args[0], a path, which runs in `env` until it ends or its patience has: it is killed then.
// stderr: as well as stdout, or none of it. nullopt: it could not be started or took too long.
std::optional<ProgramOutput> OutputOf(const std::vector<std::string>& args,
                                      const Environment& env,
                                      bool with_stderr,
                                      std::chrono::milliseconds patience);

}  // namespace ddprun::launcher

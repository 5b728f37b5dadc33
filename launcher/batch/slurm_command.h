// Runs SLURM's own commands.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

// Runs "squeue ..." or "scontrol ..." and returns its output with standard error; nullopt if there
// is no such program (in a container), or if it takes longer than `patience`.
std::optional<ProgramOutput> RunSlurmCommand(std::vector<std::string> words,
                                             const Environment& env,
                                             std::chrono::milliseconds patience);

// Returns the value of NAME=value in the output of "scontrol show job -o"; "" if it is not there. A
// value may have blanks, as a path in a folder "my work" has.
std::string ReadJobField(std::string_view name, std::string_view text);

}  // namespace ddprun::launcher

// Runs ddprun from its command line to its exit code.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/commands.h"

namespace ddprun::launcher {

// Runs what `args`, without the program's name, ask for, and returns the exit code. Call it on the
// main thread, before any other thread is started.
int Run(const std::vector<std::string>& args,
        std::span<const Subcommand> subcommands = AllSubcommands());

}  // namespace ddprun::launcher

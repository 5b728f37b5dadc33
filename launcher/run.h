// Runs ddprun from its command line to its exit code.
#pragma once

#include <string>
#include <vector>

namespace ddprun::launcher {

// `args` are the words without the program's name. REQUIRES: the main thread, and no other thread.
int Run(const std::vector<std::string>& args);

}  // namespace ddprun::launcher

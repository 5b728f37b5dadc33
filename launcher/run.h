// ddprun from its command line to its exit code.
#pragma once

#include <string>
#include <vector>

namespace ddprun::launcher {

// `args` without the program's name. Call it on the main thread, before any other is started.
int Run(const std::vector<std::string>& args);

}  // namespace ddprun::launcher

// The files that a command reads, and the one that it writes.
#pragma once

#include <string>
#include <vector>

namespace ddprun::trainer {

// Throws Failure if the file `out` is one of the files or patterns, which would be lost.
void RefuseInputAsOutput(const std::vector<std::string>& files, const std::string& out);

}  // namespace ddprun::trainer

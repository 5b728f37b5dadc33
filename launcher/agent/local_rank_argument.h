// Puts the local rank into the arguments of a worker. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Replaces ${local_rank} and $local_rank in an argument, as torchrun does; a second $ in front
// prevents this. Keeps all other text, also "$$": torchrun turns every "$$" into "$", which would
// break `sh -c 'echo $$'`.
std::string SubstituteLocalRank(std::string_view text, int local_rank);

// Replaces the local rank in all words of a command but the first, the program's name.
std::vector<std::string> CommandOf(const std::vector<std::string>& argv, int local_rank);

}  // namespace ddprun::launcher

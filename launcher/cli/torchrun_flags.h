// torchrun 2.11's flags that ddprun does not have yet: a job script that uses one deserves to be
// told so, rather than "unknown".
#pragma once

#include <string_view>

namespace ddprun::launcher {

// `name` without dashes in front, spelled with underscores.
bool IsTorchrunFlag(std::string_view name);

}  // namespace ddprun::launcher

// `ddprun store`: a stand-alone store server, and questions to a running one.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// `args` after "store". The exit code, or an Error to show. A server returns 0 when a signal asks
// it to stop; a question 1 when the key is not there. One thread, which it keeps.
Result<int> RunStoreCommand(const std::vector<std::string>& args, const Environment& env);

}  // namespace ddprun::launcher

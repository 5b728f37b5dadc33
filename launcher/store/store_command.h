// `ddprun store`: a stand-alone store server, and questions to a running one.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/store/store_options.h"
#include "rendezvous/store/store_status.h"

namespace ddprun::launcher {

// `args` after "store". The exit code, or an Error to show. A server returns 0 when a signal asks
// it to stop; a question 1 when the key is not there. One thread, which it keeps.
Result<int> RunStoreCommand(const std::vector<std::string>& args, const Environment& env);

// Writes the answer to `out`. kFailed with page "no-such-key" when the key is not there.
Result<int> AskStore(const StoreAskOptions& options, std::FILE* out);

// One line of counters, then one per wait, the longest first, each with its newline.
std::string StatusText(const rendezvous::StoreStatus& status);

}  // namespace ddprun::launcher

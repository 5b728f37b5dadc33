// `ddprun store` runs a store server, or asks a running one.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/store/store_options.h"
#include "rendezvous/store/store_status.h"

namespace ddprun::launcher {

// Runs "ddprun store `args`" on this thread until it is done. Returns the exit code, or an Error to
// show: 0 for a server that a signal stops, 1 for a question about a key that does not exist.
Result<int> RunStoreCommand(const std::vector<std::string>& args, const Environment& env);

// Writes the answer to `out`. Returns kFailed with page "no-such-key" if the key does not exist.
Result<int> QueryStore(const StoreQueryOptions& options, std::FILE* out);

// Returns a line of counters, then a line for each wait, the longest first.
std::string StatusText(const rendezvous::StoreStatus& status);

}  // namespace ddprun::launcher

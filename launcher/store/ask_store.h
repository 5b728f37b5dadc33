// One question to a running store.
#pragma once

#include <cstdio>

#include "base/result.h"
#include "launcher/store/store_options.h"

namespace ddprun::launcher {

// Writes the answer to `out`. kFailed with page "no-such-key" when the key is not there.
Result<int> AskStore(const StoreAskOptions& options, std::FILE* out);

}  // namespace ddprun::launcher

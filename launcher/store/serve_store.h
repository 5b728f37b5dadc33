// A store server as a program of its own.
#pragma once

#include "base/result.h"
#include "launcher/store/store_options.h"

namespace ddprun::launcher {

// Serves until SIGTERM, SIGINT, SIGHUP or SIGQUIT. stdout: where it listens; stderr: the rest.
Result<int> ServeStore(const StoreServeOptions& options);

}  // namespace ddprun::launcher

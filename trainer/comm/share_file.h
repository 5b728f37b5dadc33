// Shares a file descriptor among the processes of a group on one machine that have neither ddprun
// nor a store. Uses a socket with an abstract name, so that no file is left behind.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

// Returns one file on all ranks: rank 0 calls `make` and sends the file to the `size` - 1 others,
// which ask for it. `name` (at most 90 bytes) identifies the group. Rank 0 serves only processes of
// its own user. Waits at most `timeout`; then returns kRendezvous, which names the missing ranks.
Result<UniqueFd> ShareFile(const std::string& name,
                           int rank,
                           int size,
                           std::chrono::milliseconds timeout,
                           const std::function<Result<UniqueFd>()>& make);

}  // namespace ddprun::trainer

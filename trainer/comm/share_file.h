// Hands a file descriptor to the other processes of a group on this machine that has neither a
// launcher of ours nor a store: over a socket with an abstract name, which leaves nothing behind.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

// Rank 0 calls `make` and gives the file to all others of `size`, which ask for it; every rank
// returns the same file. `name` (at most 90 bytes) is that of the group; only processes of the same
// user are served. Waits at most `timeout`: kRendezvous then, with the ranks that did not come.
Result<UniqueFd> ShareFile(const std::string& name,
                           int rank,
                           int size,
                           std::chrono::milliseconds timeout,
                           const std::function<Result<UniqueFd>()>& make);

}  // namespace ddprun::trainer

// The errors that all transports report alike. Internal to its folder.
#pragma once

#include <string>

#include "base/result.h"

namespace ddprun::trainer {

// `peer` is the other rank; -1 means that it is not known.
Error MessageTooLong(int rank, int peer);
// `why` is the system's or the library's reason.
Error ConnectionToRankLost(int rank, int peer, bool receives, const std::string& why);

}  // namespace ddprun::trainer

// A store's state for people.
#pragma once

#include <string>

#include "rendezvous/store/store_status.h"

namespace ddprun::launcher {

// One line of counters, then one per wait, the longest first, each with its newline.
std::string StatusText(const rendezvous::StoreStatus& status);

}  // namespace ddprun::launcher

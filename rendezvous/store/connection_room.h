// Limits how many connections a store may have.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ddprun/error.h>

namespace ddprun::rendezvous {

// Returns how many descriptors this process may have open, less a reserve for its other work.
size_t ConnectionsThatFit();

// The store can take no more connections. `problem` is an errno; 0 means the store's own limit.
Error NoRoomForMore(uint16_t port, size_t connections, int problem);

}  // namespace ddprun::rendezvous

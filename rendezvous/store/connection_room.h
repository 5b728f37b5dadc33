// How many connections a store may have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace ddprun::rendezvous {

// As many descriptors as this process may have open now, less a reserve for its other work.
size_t ConnectionsThatFit();

// `problem`: an errno, or 0 when the store's own limit was met.
Error NoRoomForMore(uint16_t port, size_t connections, int problem);

}  // namespace ddprun::rendezvous

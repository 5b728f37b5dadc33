// The error of both clients when another program has the port.
#pragma once

#include <string_view>

#include "base/error.h"
#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

// `received`: what came instead of the answer to the greeting.
Error NoStoreThere(const HostPort& peer, std::string_view received);

}  // namespace ddprun::rendezvous

// --network_interface: the network over which this node talks to the others.
#pragma once

#include <span>
#include <string>

#include "base/env.h"
#include "base/result.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

// Returns the address of the interface with this name (eth1), or of the first one with an address
// in this network (10.1.0.0/16); one that is up and one of IPv4 come before others. Pure. Error:
// kUsage, with the interfaces that there are.
Result<rendezvous::OwnAddress> FindInterface(const std::string& wanted,
                                             std::span<const rendezvous::OwnAddress> own);

// Sets the variables by which ddp-trainer, NCCL and Gloo use the interface, unless the user has.
void UseInterface(const std::string& name, Environment& env);

}  // namespace ddprun::launcher

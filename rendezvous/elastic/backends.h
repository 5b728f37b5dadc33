// The list of all back ends. A new back end is a row in backends.cc.
#pragma once

#include <span>
#include <string_view>

#include "rendezvous/backend.h"

namespace ddprun::rendezvous {

// The back end "c10d": the number of nodes may change while the job runs, and all nodes run ddprun.
// Nodes speak ddprun's own protocol (control_message.h), not torchrun's. In each round the node of
// rank 0 hosts a fresh store.
//
// If the coordinator is lost, the job fails on all nodes. `ddprun store` hosts a coordinator
// outside the job's nodes.
extern const Backend kElasticBackend;

std::span<const Backend* const> Backends();

// Returns nullptr if no back end has this name.
const Backend* FindBackend(std::string_view name);

}  // namespace ddprun::rendezvous

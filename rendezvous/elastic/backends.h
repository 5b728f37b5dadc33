// All back ends: a new one is a row in backends.cc.
#pragma once

#include <span>
#include <string_view>

#include "rendezvous/backend.h"

namespace ddprun::rendezvous {

// c10d: nodes whose number may change while the job runs, and which all run ddprun. The protocol
// between them is ddprun's own (control_message.h), not torchrun's. A fresh store per round on the
// node of rank 0. When the coordinator's node goes, the job has failed on all others: host it apart
// (`ddprun store`) where that must not be.
extern const Backend kElasticBackend;

std::span<const Backend* const> Backends();

// Null: there is none of this name.
const Backend* FindBackend(std::string_view name);

}  // namespace ddprun::rendezvous

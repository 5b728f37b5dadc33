// The list of all back ends, and what their implementations share. A new back end is a row in
// backends.cc.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "rendezvous/backend.h"

namespace ddprun::rendezvous {

// The back end "static", for nodes that know their number and their ranks. It speaks the protocol
// of torchrun's static back end (torch 2.11), so ddprun and torchrun nodes can be in one job, and
// each of them can be node 0.
//
// Node 0 hosts the store at the endpoint's address; OwnAddresses() says when it listens on all
// addresses instead. A single node exchanges nothing: Join() only opens the port. With several
// nodes, every round after the first gets a fresh store on a free port.
//
// kRestart needs ddprun on all nodes. If a node runs torchrun, kRestart becomes kJobFailed, and
// the node that asked for the restart learns this by WatchRound(). If a node is lost, the job
// fails.
extern const Backend kStaticBackend;

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

// Returns `node` as a Rendezvous that calls Stop() when the last copy of the pointer is gone,
// because pending handlers would keep the node alive.
template <typename Node>
std::shared_ptr<Rendezvous> Owned(std::shared_ptr<Node> node) {
  Rendezvous* const interface = node.get();
  return {interface, [node = std::move(node)](Rendezvous*) { node->Stop(); }};
}

}  // namespace ddprun::rendezvous

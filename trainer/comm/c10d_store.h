// The job's store as a c10d::Store, as c10d's process groups and StoreCollectives need it.
#pragma once

#include <chrono>
#include <memory>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "rendezvous/store/tcp_store.h"

namespace ddprun::trainer {

// Returns a store that behaves as c10d::TCPStore, except in one case: if another process takes the
// element for which a blocking queuePop() waits, queuePop() waits for the next element. `timeout`
// limits waits until setTimeout().
//
// Any thread may call it, but calls on one store run one after the other, and a waiting call blocks
// the rest. Several threads should each take a clone(), which has its own connection.
//
// Throws c10::DistStoreError if a wait times out, DistQueueEmptyError if a queue is empty, and
// DistNetworkError if the server is gone.
c10::intrusive_ptr<c10d::Store> MakeC10dStore(std::unique_ptr<rendezvous::TcpStore> client,
                                              std::chrono::milliseconds timeout);

}  // namespace ddprun::trainer

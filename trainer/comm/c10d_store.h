// The job's store as LibTorch knows stores: what c10d's process groups, PrefixStore and
// StoreCollectives are made from.
#pragma once

#include <chrono>
#include <memory>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "rendezvous/store/tcp_store.h"

namespace ddprun::trainer {

// Behaves as c10d::TCPStore, but that a blocking queuePop() whose element another process takes
// waits for the next one. As thread-safe: calls on one store wait for each other, a waiting one
// included, so several threads take a clone() each, which is a connection of its own. Throws
// c10::DistStoreError when a wait runs out of time, DistQueueEmptyError, and DistNetworkError when
// the server is gone. `timeout`: of waits, until setTimeout().
c10::intrusive_ptr<c10d::Store> MakeC10dStore(std::unique_ptr<rendezvous::TcpStore> client,
                                              std::chrono::milliseconds timeout);

}  // namespace ddprun::trainer

// SEAM: a store for code on an event loop. A StoreServer answers in this process, on the node that
// hosts the store; a StoreConnection asks over the network.
#pragma once

#include <functional>

#include "base/result.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

class AsyncStore {
 public:
  using Handler = std::function<void(Result<Reply>)>;

  virtual ~AsyncStore() = default;

  // Sends a request and calls `handler` once, from the loop and never from within Call(). Keys are
  // those of the wire: torch's clients put "/" before all keys but "init/". If a request has no
  // answer on the wire (kSet), `handler` is called when the store has done it.
  //
  // Destroying the store drops the handlers. Loop thread only.
  virtual void Call(Request request, Handler handler) = 0;
};

}  // namespace ddprun::rendezvous

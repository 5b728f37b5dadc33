// SEAM: a store as an event loop sees it. A StoreServer answers in process (the node that hosts
// it), a StoreConnection over the network.
#pragma once

#include <functional>

#include "base/result.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

class AsyncStore {
 public:
  using Handler = std::function<void(Result<Reply>)>;

  virtual ~AsyncStore() = default;

  // Keys are those of the wire (torch's clients put "/" in front of all but "init/"). Calls
  // `handler` once, from the loop, never from within Call; a request without an answer on the
  // wire (kSet) is done when the store has it. Handlers of a destroyed store are dropped.
  // Loop thread only.
  virtual void Call(Request request, Handler handler) = 0;
};

}  // namespace ddprun::rendezvous

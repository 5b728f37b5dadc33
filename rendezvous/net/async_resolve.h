// Looks a name up without stopping an event loop, also at the loop's end. asio's resolver would
// stop it there: it joins its thread when the io_context is destroyed, which takes seconds if the
// name server does not answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

// One look-up. Destroying it drops the handler. Use it on the loop thread only.
class AsyncResolve {
 public:
  using Handler = std::function<void(Result<std::vector<asio::ip::address>>)>;

  // Calls `handler` once from the loop, never from within the constructor.
  AsyncResolve(asio::io_context& io, const std::string& host, Handler handler);
  ~AsyncResolve();

  AsyncResolve(const AsyncResolve&) = delete;
  AsyncResolve& operator=(const AsyncResolve&) = delete;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ddprun::rendezvous

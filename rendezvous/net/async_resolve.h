// Name look-up that does not stop an event loop, and that the loop need not wait for at its end:
// asio's resolver joins its thread when the io_context is destroyed, which takes seconds where
// the name server is silent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

// One look-up; destroying it drops the handler. Loop thread only.
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

// Connects without stopping the event loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

// One try of every address of the host, one after the other, a few seconds for each. Loop thread
// only; destroying it drops the handler.
class AsyncConnect {
 public:
  // Calls `handler` from the loop with the connection, or with the last address's problem as an
  // Error's `what` ("Connection refused"), the address as `where`.
  AsyncConnect(asio::io_context& io,
               HostPort endpoint,
               std::function<void(Result<UniqueFd>)> handler);
  ~AsyncConnect();

  // The connection that the handler has got is not what was looked for, for the reason `problem`:
  // goes on with the next address and calls the handler again.
  void Next(const std::string& problem);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous

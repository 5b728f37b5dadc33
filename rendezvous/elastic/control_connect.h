// Connects to the coordinator without stopping the event loop.
#pragma once

#include <functional>
#include <memory>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

// One try of every address of the host, one after the other, a few seconds for each. Loop thread
// only; destroying it drops the handler.
class ControlConnect {
 public:
  // Calls `handler` once, from the loop, with the connection or with the last address's problem
  // ("10.0.0.1: Connection refused (errno 111)") as an Error's `what`.
  ControlConnect(asio::io_context& io,
                 HostPort endpoint,
                 std::function<void(Result<UniqueFd>)> handler);
  ~ControlConnect();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous

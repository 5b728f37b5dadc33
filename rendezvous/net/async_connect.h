// Connects without stopping the event loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "rendezvous/net/address.h"
#include "rendezvous/net/gate.h"

namespace ddprun::rendezvous {

// Tries each address of a host once, one after the other, a few seconds for each. Use it on the
// loop thread only. Destroying it drops the handler.
class AsyncConnect {
 public:
  // Calls `handler` from the loop with the connection, which has passed the gate unless `gate` is
  // nullptr. If no address answers, calls it with an Error: `what` is the last address's problem
  // ("Connection refused"), `where` is the address. An Error of kRendezvous comes from the gate.
  AsyncConnect(asio::io_context& io,
               HostPort endpoint,
               std::shared_ptr<Gate> gate,
               std::function<void(Result<UniqueFd>)> handler);
  ~AsyncConnect();

  // Rejects the connection that the handler got, because of `problem`. Tries the next address and
  // calls the handler again.
  void Next(const std::string& problem);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous

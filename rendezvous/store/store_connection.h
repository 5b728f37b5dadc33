// An event loop's connection to a store on another node.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/net/address.h"
#include "rendezvous/net/socket.h"
#include "rendezvous/store/async_store.h"

namespace ddprun::rendezvous {

// Connects in the background, trying again until the deadline. Requests are sent one after the
// other, so a kWait holds up later ones: use a second connection for those. When the connection
// cannot be made or ends, or another program answers, every open and later call gets the Error.
// Loop thread only.
class StoreConnection : public AsyncStore {
 public:
  StoreConnection(asio::io_context& io, HostPort server, Deadline connect_deadline);
  ~StoreConnection() override;

  void Call(Request request, Handler handler) override;

  bool connected() const;
  // Why it is not connected yet ("Connection refused"); empty before the first attempt.
  std::string last_problem() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with pending handlers
};

// Waits for one key, over a connection of its own. Loop thread only.
class StoreWatch {
 public:
  using Handler = std::function<void(Result<std::string>)>;

  // Calls `handler` once with the value when the key exists, or with the Error when the store
  // cannot be reached by the deadline or goes away later. `key` is the wire's (leading "/").
  // Destroying the watch drops the handler.
  StoreWatch(asio::io_context& io,
             const HostPort& server,
             Deadline connect_deadline,
             std::string key,
             Handler handler);

 private:
  StoreConnection connection_;
};

}  // namespace ddprun::rendezvous

// An event loop's connection to a store on another node.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/net/address.h"
#include "rendezvous/net/gate.h"
#include "rendezvous/net/socket.h"
#include "rendezvous/store/async_store.h"

namespace ddprun::rendezvous {

// Connects in the background and tries again until the deadline. Sends one request after the other,
// so a kWait holds up later requests: give it a connection of its own. If the connection fails or
// ends, another program answers or the gate refuses, every open and later call gets the Error.
// `gate` may be nullptr. Loop thread only.
class StoreConnection : public AsyncStore {
 public:
  StoreConnection(asio::io_context& io,
                  HostPort server,
                  std::shared_ptr<Gate> gate,
                  Deadline connect_deadline);
  ~StoreConnection() override;

  void Call(Request request, Handler handler) override;

  bool connected() const;
  // Returns why it is not connected yet ("Connection refused"); "" before the first attempt ends.
  std::string last_problem() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with pending handlers
};

// Waits for one key on a connection of its own. Loop thread only.
class StoreWatch {
 public:
  using Handler = std::function<void(Result<std::string>)>;

  // Calls `handler` once: with the value when the key exists, or with an Error if the store cannot
  // be reached by the deadline or is lost later. `key` is a key of the wire, with a leading "/".
  // Destroying the watch drops the handler.
  StoreWatch(asio::io_context& io,
             const HostPort& server,
             std::shared_ptr<Gate> gate,
             Deadline connect_deadline,
             std::string key,
             Handler handler);

 private:
  StoreConnection connection_;
};

}  // namespace ddprun::rendezvous

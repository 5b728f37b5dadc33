// Waits for one key without blocking.
#pragma once

#include <functional>
#include <string>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/store/store_connection.h"

namespace ddprun::rendezvous {

// One connection of its own. Loop thread only.
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

// A c10d TCPStore server on the caller's event loop, for thousands of clients: torch's and
// ddprun's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "rendezvous/store/async_store.h"
#include "rendezvous/store/store_door.h"
#include "rendezvous/store/store_state.h"
#include "rendezvous/store/store_status.h"
#include "rendezvous/store/wire_decoder.h"

namespace ddprun::rendezvous {

struct StoreServerLimits {
  WireLimits wire;
  StoreLimits state;
  // How long a new connection may take to show that it speaks the protocol.
  std::chrono::milliseconds handshake_timeout{10'000};
  // The server closes a connection that takes none of its replies for this time. While more than
  // max_unsent_bytes are unsent, the server reads no requests of the connection.
  std::chrono::milliseconds stalled_write_timeout{60'000};
  size_t max_unsent_bytes = 4 << 20;
  // Limit for all connections together: requests received in part, and replies not taken. The
  // server closes the connection that exceeds it.
  size_t max_buffered_bytes = size_t{1} << 30;
  // 0 means ConnectionsThatFit(). Clients beyond the limit wait to be accepted until another one
  // leaves.
  size_t max_connections = 0;
};

// A client that waits for keys. If a job hangs, only the store's host knows this.
struct ParkedWait {
  std::string peer;  // "10.0.0.7:41532", and the server's end of the connection
  std::string own;
  std::vector<std::string> keys;  // the keys, as on the wire, that do not exist yet
  bool barrier = false;           // it waits for other clients at the barrier of its key
  // When the wait began. If a client cancels its wait and repeats it, the first wait counts.
  std::chrono::steady_clock::time_point since;
};

// Use it on the loop thread only. Destroying it closes every connection, so that clients notice.
class StoreServer : public AsyncStore {
 public:
  // Listens on every address at one port; port 0 means a free one. Leaves out addresses that this
  // machine does not have, if another one remains. The error (kAddressInUse or kCannotListen) names
  // address, port and reason.
  static Result<std::unique_ptr<StoreServer>> Listen(asio::io_context& io,
                                                     std::span<const asio::ip::address> addresses,
                                                     uint16_t port,
                                                     StoreServerLimits limits = {});
  static Result<std::unique_ptr<StoreServer>> Listen(asio::io_context& io,
                                                     const asio::ip::address& address,
                                                     uint16_t port,
                                                     StoreServerLimits limits = {});
  ~StoreServer() override;

  uint16_t port() const;

  // Answers a request of the host itself. A kWait may stay open and does not hold up other calls.
  void Call(Request request, Handler handler) override;

  // Calls `handler` if a connection ends while it waits for keys, because its process or machine is
  // gone. `keys` are the missing keys that no other connection waits for.
  void OnAbandonedWait(std::function<void(const std::vector<std::string>& keys)> handler);

  // Calls `handler` once in the server's life: when clients must wait because there is no room for
  // more connections. The error is for the user (page "too-many-connections").
  void OnExhausted(std::function<void(const Error& error)> handler);

  // Serves another protocol at the same port: `handler` gets each connection whose first byte is
  // `first_byte`, with the bytes that it has sent. `first_byte` must not be 0, with which TCPStore
  // clients begin. `num_open` returns how many such connections are open, for max_connections.
  void OnForeignConnection(char first_byte,
                           std::function<void(UniqueFd fd, std::string received)> handler,
                           std::function<size_t()> num_open = {});

  // Closes connections that name a key with this prefix, and calls `handler` with the address of
  // the client ("10.0.0.7:41532").
  void RefuseKeys(std::string prefix, std::function<void(const std::string& peer)> handler);

  // Decides from now on which connections are served. Without it, all are.
  void Protect(StoreAdmission admission);

  // Calls `handler` when no network connection is left, or after `timeout`.
  void OnAllDisconnected(std::chrono::milliseconds timeout, std::function<void()> handler);

  // Returns the waits of network clients, the longest first.
  std::vector<ParkedWait> ParkedWaits() const;
  // Returns the status. A GET of kStatusKey gets it as text.
  StoreStatus Summary() const;

 private:
  class Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl);
  // Pending handlers share it, and outlive the server by one turn of the loop.
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous

// A c10d TCPStore server on the caller's event loop: torch's clients and ours, thousands of them.
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
#include "rendezvous/store/store_state.h"
#include "rendezvous/store/store_status.h"
#include "rendezvous/store/wire_decoder.h"

namespace ddprun::rendezvous {

struct StoreServerLimits {
  WireLimits wire;
  StoreLimits state;
  // Until a new connection has shown that it speaks the protocol.
  std::chrono::milliseconds handshake_timeout{10'000};
  // A peer that takes nothing of its replies for so long is closed. Beyond max_unsent_bytes no
  // more of its requests are read.
  std::chrono::milliseconds stalled_write_timeout{60'000};
  size_t max_unsent_bytes = 4 << 20;
  // Of all connections together: requests received in part and replies not taken. Whoever wants
  // more is closed.
  size_t max_buffered_bytes = size_t{1} << 30;
  // 0: what the process may have open, less a reserve for its other work. Others wait to be
  // accepted until somebody leaves.
  size_t max_connections = 0;
};

// Who waits for what: the store's host alone can tell that, when a job hangs.
struct ParkedWait {
  std::string peer;  // "10.0.0.7:41532", and our end of the same connection
  std::string own;
  std::vector<std::string> keys;  // of the wire: those that are not there yet
  bool barrier = false;           // for the others at the barrier of that key
  // Since when. A client that waits in slices, cancelling and asking again, waits all the time.
  std::chrono::steady_clock::time_point since;
};

// Loop thread only. Destroying it closes every connection, which is how clients learn of it.
class StoreServer : public AsyncStore {
 public:
  // Listens on every address at one port; 0 takes a free one. Addresses that this machine does
  // not have are left out if another one remains. The error (kAddressInUse or
  // kCannotListen) names address, port and reason.
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

  // The host's own requests. A kWait may stay open for long and does not hold up other calls.
  void Call(Request request, Handler handler) override;

  // Called with the keys that a connection was still waiting for when it ended, less those that
  // others wait for, too: its process is gone, or its host.
  void OnAbandonedWait(std::function<void(const std::vector<std::string>& keys)> handler);

  // Called once in the server's life, when clients must wait because there is no room for more
  // connections. The error is for the user (page "too-many-connections").
  void OnExhausted(std::function<void(const Error& error)> handler);

  // Another protocol at the same port: a connection whose first byte is `first_byte` goes to
  // `handler` with what it has sent so far. Not one of TCPStore's, whose clients begin with 0.
  // `num_open`: how many of them there are; they count among max_connections.
  void OnForeignConnection(char first_byte,
                           std::function<void(UniqueFd fd, std::string received)> handler,
                           std::function<size_t()> num_open = {});

  // Closes connections that name a key which begins so, and says who it was ("10.0.0.7:41532").
  void RefuseKeys(std::string prefix, std::function<void(const std::string& peer)> handler);

  // Calls `handler` once no network connection is left, or after `timeout`.
  void OnAllDisconnected(std::chrono::milliseconds timeout, std::function<void()> handler);

  // The longest first.
  std::vector<ParkedWait> ParkedWaits() const;
  // Also what a GET of kStatusKey is answered with.
  StoreStatus Summary() const;

 private:
  class Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl);
  // Shared with pending handlers, which outlive the server by one turn of the loop.
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous

// One client's connection to a StoreServer: turns received bytes into requests and sends replies.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "rendezvous/net/socket.h"
#include "rendezvous/store/store_state.h"
#include "rendezvous/store/wire_decoder.h"

namespace ddprun::rendezvous {

// Use it on the loop thread only. The server and the session's pending handlers own it.
class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  class Owner {
   public:
    // Performs a request. An Error closes the connection.
    virtual Status OnRequest(ConnectionId from, Request request) = 0;
    // The connection ended. Not called after Close().
    virtual void OnEnded(ConnectionId connection) = 0;
    // Some replies could not be sent at once.
    virtual void OnStalled() = 0;
    // The connection keeps `now` bytes in memory; it kept `before`. Returning false closes it.
    virtual bool OnHeldBytes(size_t before, size_t now) = 0;
    // Returns whether a connection that begins with this byte is not to be served as a session.
    virtual bool IsForeign(const StoreSession& session, char first_byte) const = 0;
    // Gets such a connection and the bytes that it has sent. The session is closed.
    virtual void OnForeign(ConnectionId from, UniqueFd fd, std::string received) = 0;

   protected:
    ~Owner() = default;
  };

  // `passed`: the connection has passed the server's gate. All sessions of a server share
  // `scratch`. `scratch` and `owner` must live until Close().
  StoreSession(asio::io_context& io,
               UniqueFd fd,
               bool passed,
               ConnectionId id,
               const WireLimits& limits,
               size_t max_unsent_bytes,
               std::span<char> scratch,
               Owner& owner);

  void Start();
  // Queues a reply. Flush() sends it.
  void Queue(const Reply& reply);
  void Flush();
  void Close();

  bool passed() const { return passed_; }
  bool validated() const { return validated_; }
  bool stalled() const { return unsent_bytes() > 0; }
  // The number of bytes in memory that the owner knows of.
  size_t held_bytes() const { return held_bytes_; }
  // When the session was accepted; while replies wait, since when the client has taken none.
  Time since() const { return since_; }
  // The two ends of the connection, such as "10.0.0.7:41532"; "unknown" if the peer is gone.
  std::string peer() const;
  std::string own() const;
  SocketEnd peer_end() const;
  SocketEnd own_end() const;

 private:
  bool open() const { return owner_ != nullptr; }
  size_t unsent_bytes() const { return out_.size() - sent_; }
  void ArmRead();
  void ArmWrite();
  void OnReadable();
  void OnWritable();
  void HandOver(std::string received);
  void Run(std::string_view input);
  void Decode(std::string_view& input);
  Status HandleRequest(Request request);
  void Send();
  void DropSent();
  void Account();
  void End();

  asio::posix::stream_descriptor socket_;
  const bool passed_;
  const ConnectionId id_;
  RequestDecoder decoder_;
  const size_t max_unsent_bytes_;
  const std::span<char> scratch_;
  Owner* owner_;
  std::string out_;  // replies; the kernel has the first sent_ bytes
  size_t sent_ = 0;
  std::string backlog_;  // received, but not decoded because too much is unsent
  size_t held_bytes_ = 0;
  bool begun_ = false;  // something has been received
  bool validated_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool running_ = false;
  Time since_;
};

}  // namespace ddprun::rendezvous

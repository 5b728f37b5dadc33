// One client's connection to a StoreServer: bytes in, requests out, replies back.
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
#include "rendezvous/store/store_state.h"
#include "rendezvous/store/wire_decoder.h"

namespace ddprun::rendezvous {

// Loop thread only. Owned by the server and by its own pending handlers.
class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  class Owner {
   public:
    // An Error closes the connection.
    virtual Status OnRequest(ConnectionId from, Request request) = 0;
    // It ended by itself; not called after Close.
    virtual void OnEnded(ConnectionId connection) = 0;
    // Replies could not be sent at once.
    virtual void OnStalled() = 0;
    // The connection keeps `now` bytes in memory, no longer `before`; false closes it.
    virtual bool OnHeldBytes(size_t before, size_t now) = 0;
    // Whether connections that begin with this byte speak another protocol, whose these are.
    virtual bool IsForeign(char first_byte) const = 0;
    // Such a connection, and what it has sent so far; the session is closed.
    virtual void OnForeign(ConnectionId from, UniqueFd fd, std::string received) = 0;

   protected:
    ~Owner() = default;
  };

  // `scratch` is shared by the server's sessions; it and `owner` must live until Close.
  StoreSession(asio::io_context& io,
               UniqueFd fd,
               ConnectionId id,
               const WireLimits& limits,
               size_t max_unsent_bytes,
               std::span<char> scratch,
               Owner& owner);

  void Start();
  // Queues a reply; Flush sends.
  void Queue(const Reply& reply);
  void Flush();
  void Close();

  bool validated() const { return validated_; }
  bool stalled() const { return unsent_bytes() > 0; }
  // What it last told its owner to keep in memory.
  size_t held_bytes() const { return held_bytes_; }
  // When it was accepted, or since when it has taken none of its replies.
  Time since() const { return since_; }
  // The two ends of the connection, "10.0.0.7:41532"; "unknown" once the peer is gone.
  std::string peer() const;
  std::string own() const;

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
  const ConnectionId id_;
  RequestDecoder decoder_;
  const size_t max_unsent_bytes_;
  const std::span<char> scratch_;
  Owner* owner_;
  std::string out_;  // replies; the first sent_ bytes are with the kernel
  size_t sent_ = 0;
  std::string backlog_;  // received, not decoded because too much is unsent
  size_t held_bytes_ = 0;
  bool begun_ = false;  // something has been received
  bool validated_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool running_ = false;
  Time since_;
};

}  // namespace ddprun::rendezvous

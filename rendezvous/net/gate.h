// SEAM: how the two ends of a connection find out that both belong to the same job, before either
// speaks the protocol of the port.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::rendezvous {

// A check that is under way. Destroying it closes the connection and drops the handler.
class Handshake {
 public:
  virtual ~Handshake() = default;
};

// Use it on the loop thread only. Handlers are called from the loop, never from within the call
// that takes them, and may destroy the Handshake. The caller sets a time limit.
class Gate {
 public:
  using Handler = std::function<void(Result<UniqueFd>)>;

  virtual ~Gate() = default;

  // The client's side, on a new connection. Calls `done` with the connection when each end knows
  // that the other belongs to the job. Error: kRendezvous if the ends do not fit, so that a further
  // attempt is useless; kFailed if the connection ended.
  virtual std::unique_ptr<Handshake> Show(asio::io_context& io, UniqueFd fd, Handler done) = 0;
  // The server's side, on a connection that began with kFirstByte. `received` has the bytes that
  // were read from it. The Error's `what` says of the client what is wrong ("has another token").
  virtual std::unique_ptr<Handshake> Check(asio::io_context& io,
                                           UniqueFd fd,
                                           std::string received,
                                           Handler done) = 0;
  // Returns whether a client at `address` has passed Check() since this gate was made.
  virtual bool Knows(const asio::ip::address& address) const = 0;

  // With it a client begins Show(). Neither a TCPStore client nor a control connection does.
  static constexpr char kFirstByte = 'D';
  // The answer to Show() where there is no gate: refused, because of no token, version 1.
  static constexpr std::string_view kNoGateHere{"R\1\1", 3};
};

}  // namespace ddprun::rendezvous

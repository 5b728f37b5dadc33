// One end of a control connection: sends and receives JSON messages, and notices if the other end
// is dead.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <nlohmann/json_fwd.hpp>

#include "base/unique_fd.h"
#include "rendezvous/rendezvous_options.h"

namespace ddprun::rendezvous {

// How a channel ends: the other end closes it, is no ddprun, or is not heard any longer.
enum class ChannelEnd { kClosed, kStranger, kSilent };

// A node sends this first. Its first byte shows the store's server that the node is no TCPStore
// client.
inline constexpr std::string_view kControlPreamble = "ddprun\n";

// On the wire, a message is the length of its JSON text (4 bytes, big-endian) and the text. Use
// the channel on the loop thread only. Handlers are called from the loop and may destroy it.
class ControlChannel {
 public:
  struct Handlers {
    std::function<void(const nlohmann::json& message)> on_message;
    // Called once if the channel ends. `reason` ends a sentence: "its connection was closed".
    std::function<void(const std::string& reason, ChannelEnd how)> on_closed;
  };

  enum class End { kNode, kCoordinator };

  // A node sends the preamble, the coordinator expects it. `received` has the bytes that were
  // already read from `fd`.
  ControlChannel(
      asio::io_context& io, End end, UniqueFd fd, std::string received, Handlers handlers);
  ~ControlChannel();

  void Send(const nlohmann::json& message);
  // From now on sends signs of life, and closes the channel if the other end sends nothing.
  void StartKeepAlive(const KeepAlive& keep_alive);

  asio::ip::address peer() const;
  asio::ip::address own() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous

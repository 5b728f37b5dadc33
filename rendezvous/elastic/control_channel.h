// One control connection, at either end: JSON messages both ways, and the watch over whether the
// other end still lives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <nlohmann/json_fwd.hpp>

#include "base/unique_fd.h"
#include "rendezvous/backend.h"

namespace ddprun::rendezvous {

// What a node sends first. Its first byte tells the store server that this is no TCPStore client.
inline constexpr std::string_view kControlPreamble = "ddprun\n";

// A message is its length (4 bytes, big-endian) and that many bytes of a JSON object. Loop thread
// only. Handlers are called from the loop and may destroy the channel.
class ControlChannel {
 public:
  struct Handlers {
    std::function<void(const nlohmann::json& message)> on_message;
    // Once, when the other end closed it, fell silent, or is no ddprun (`stranger`); `reason` ends
    // a sentence: "its connection was closed".
    std::function<void(const std::string& reason, bool stranger)> on_closed;
  };

  enum class End { kNode, kCoordinator };

  // A node sends the preamble, the coordinator expects it. `received`: what has already been read
  // from `fd`.
  ControlChannel(
      asio::io_context& io, End end, UniqueFd fd, std::string received, Handlers handlers);
  ~ControlChannel();

  void Send(const nlohmann::json& message);
  // Sends signs of life from now on and expects them.
  void StartKeepAlive(const KeepAlive& keep_alive);

  asio::ip::address peer() const;
  asio::ip::address own() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous

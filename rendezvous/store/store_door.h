// Decides which connections a store's server serves, and refuses the others with a line that their
// programs show.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>

#include "base/unique_fd.h"
#include "rendezvous/net/gate.h"

namespace ddprun::rendezvous {

// Without a gate everyone comes in. With one, a connection comes in that has passed the gate, and a
// TCPStore client, which knows no gate, if it comes from this machine or from one whose agent has
// passed. Use it on the loop thread only. Destroying it closes the connections at the door.
class StoreDoor {
 public:
  // Neither handler may destroy the door.
  StoreDoor(asio::io_context& io, std::function<void(UniqueFd fd)> on_passed);
  ~StoreDoor();

  // From now on connections have to pass `gate`. `on_refused` gets one line for each kind of
  // refusal.
  void Protect(std::shared_ptr<Gate> gate, std::function<void(const std::string& line)> on_refused);

  // Returns whether Take() must get a connection of `peer` that begins with this byte and has not
  // passed the gate.
  bool Stops(char first_byte, const asio::ip::address& peer) const;
  // Checks a connection, or refuses it. `received` has the bytes that were read from it.
  void Take(UniqueFd fd, std::string received);
  // Returns the number of connections at the door.
  size_t size() const { return visitors_.size(); }

 private:
  struct Visitor;
  using Entry = std::shared_ptr<Visitor>;

  void OnLate(const Entry& visitor);
  void OnChecked(const Entry& visitor, Result<UniqueFd> checked);
  void Refuse(const Entry& visitor, UniqueFd fd, std::string_view answer);
  void Drain(const Entry& visitor);
  void Report(const Visitor& visitor, const std::string& why);

  asio::io_context& io_;
  std::function<void(UniqueFd fd)> on_passed_;
  std::function<void(const std::string& line)> on_refused_;
  std::shared_ptr<Gate> gate_;
  std::set<Entry> visitors_;
  std::set<std::string> reported_;
};

}  // namespace ddprun::rendezvous

// Decides which connections a store's server serves, and refuses the others with a line that their
// programs show.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"
#include "rendezvous/net/gate.h"
#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

struct StoreAdmission {
  // With a gate, a connection comes in that has passed it, and a TCPStore client, which knows no
  // gate, if it comes from this machine or from one whose agent has passed. nullptr: all come in.
  std::shared_ptr<Gate> gate = nullptr;
  // Whether other users of this machine must pass the gate; see IsOfOtherUser().
  bool own_user_only = true;
  // Gets one line for each kind of refusal. May be empty; must not destroy the server.
  std::function<void(const std::string& line)> on_refused = {};
};

// Use it on the loop thread only. Destroying it closes the connections at the door.
class StoreDoor {
 public:
  // Everyone comes in before Protect(). `on_passed` must not destroy the door.
  StoreDoor(asio::io_context& io, std::function<void(UniqueFd fd)> on_passed);
  ~StoreDoor();

  void Protect(StoreAdmission admission) { admission_ = std::move(admission); }

  // Returns whether clients at this address have to pass the gate.
  bool IsStrange(const asio::ip::address& peer) const;
  // Returns whether Take() must get a connection that begins with this byte and has not passed the
  // gate.
  bool Stops(char first_byte, const SocketEnd& own, const SocketEnd& peer) const;
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
  // Returns whether the peer is a user of this machine who has to pass the gate.
  bool ShutsOut(const SocketEnd& own, const SocketEnd& peer) const;

  asio::io_context& io_;
  std::function<void(UniqueFd fd)> on_passed_;
  StoreAdmission admission_ = {.own_user_only = false};
  std::set<Entry> visitors_;
  std::set<std::string> reported_;
};

}  // namespace ddprun::rendezvous

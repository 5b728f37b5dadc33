#include "rendezvous/store/store_door.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/net/address.h"
#include "rendezvous/net/socket_owner.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;

// How long a connection may stay at the door.
constexpr std::chrono::milliseconds kPatience{5000};
constexpr char kStoreByte = '\0';  // the first byte of every TCPStore client
// Programs that expect a store or a coordinator show what they got, up to 60 characters of it.
constexpr std::string_view kNeedsToken = "this port wants a token: set DDPRUN_TOKEN_FILE\n";
constexpr std::string_view kOtherUser = "this port is of another user's job\n";

}  // namespace

// A connection that is checked or, once it is refused, read until its end: the kernel may drop the
// answer if the connection is closed while bytes of the client are on their way.
struct StoreDoor::Visitor {
  explicit Visitor(asio::io_context& io) : socket(io), timer(io) {}

  std::unique_ptr<Handshake> handshake;
  stream_descriptor socket;
  asio::steady_timer timer;
  SocketEnd peer;
};

StoreDoor::StoreDoor(asio::io_context& io, std::function<void(UniqueFd fd)> on_passed)
    : io_(io), on_passed_(std::move(on_passed)) {}

StoreDoor::~StoreDoor() = default;

bool StoreDoor::ShutsOut(const SocketEnd& own, const SocketEnd& peer) const {
  return admission_.own_user_only && IsOfOtherUser(own, peer);
}

bool StoreDoor::IsStrange(const asio::ip::address& peer) const {
  const Gate* const gate = admission_.gate.get();
  return gate != nullptr && !gate->Knows(peer) && !IsOwnAddress(peer);
}

bool StoreDoor::Stops(char first_byte, const SocketEnd& own, const SocketEnd& peer) const {
  if (first_byte == Gate::kFirstByte || ShutsOut(own, peer)) return true;
  if (admission_.gate == nullptr) return false;
  return first_byte != kStoreByte || IsStrange(peer.address);
}

void StoreDoor::Take(UniqueFd fd, std::string received) {
  const auto visitor = std::make_shared<Visitor>(io_);
  visitors_.insert(visitor);
  visitor->peer = EndOf(fd.get(), getpeername);
  visitor->timer.expires_after(kPatience);
  // Handlers do not hold the visitor, so it ends when the door removes it.
  const std::weak_ptr<Visitor> weak = visitor;
  visitor->timer.async_wait([this, weak](const asio::error_code& error) {
    const Entry late = weak.lock();
    if (!error && late != nullptr) OnLate(late);
  });
  const bool shows = received.front() == Gate::kFirstByte;
  if (shows && admission_.gate != nullptr) {
    visitor->handshake = admission_.gate->Check(
        io_, std::move(fd), std::move(received),
        [this, weak](Result<UniqueFd> checked) { OnChecked(weak.lock(), std::move(checked)); });
  } else if (!shows && ShutsOut(EndOf(fd.get(), getsockname), visitor->peer)) {
    Report(*visitor, "is of another user of this machine");
    Refuse(visitor, std::move(fd), kOtherUser);
  } else {
    Report(*visitor, shows ? "has a token, and this node has none" : "came without a token");
    Refuse(visitor, std::move(fd), shows ? Gate::kNoGateHere : kNeedsToken);
  }
}

void StoreDoor::OnLate(const Entry& visitor) {
  if (visitor->handshake != nullptr) Report(*visitor, "began a handshake and did not end it");
  visitors_.erase(visitor);
}

void StoreDoor::OnChecked(const Entry& visitor, Result<UniqueFd> checked) {
  visitors_.erase(visitor);
  if (checked.has_value()) return on_passed_(*std::move(checked));
  Report(*visitor, checked.error().what);
}

void StoreDoor::Refuse(const Entry& visitor, UniqueFd fd, std::string_view answer) {
  visitor->socket.assign(fd.release());
  const int socket = visitor->socket.native_handle();
  // Ignores a failure, because then nobody reads the answer.
  [[maybe_unused]] const ssize_t sent = send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
  shutdown(socket, SHUT_WR);
  Drain(visitor);
}

void StoreDoor::Drain(const Entry& visitor) {
  visitor->socket.async_wait(stream_descriptor::wait_read, [this, weak = std::weak_ptr(visitor)](
                                                               const asio::error_code& error) {
    const Entry refused = weak.lock();
    if (error || refused == nullptr) return;
    std::array<char, 4096> unread;
    const ssize_t count = recv(refused->socket.native_handle(), unread.data(), unread.size(), 0);
    if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return Drain(refused);
    visitors_.erase(refused);
  });
}

void StoreDoor::Report(const Visitor& visitor, const std::string& why) {
  if (!admission_.on_refused || !reported_.insert(why).second) return;
  admission_.on_refused("refused " + EndpointText(visitor.peer.address, visitor.peer.port) +
                        ": it " + why + " (others like it are not reported)");
}

}  // namespace ddprun::rendezvous

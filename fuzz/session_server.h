// A store's sessions and state on one event loop, without the door, the clocks and the port of
// StoreServer.
#pragma once

#include <sys/socket.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"
#include "fuzz/input.h"
#include "rendezvous/store/store_session.h"
#include "rendezvous/store/store_state.h"

namespace ddprun::fuzz {

struct ServerLimits {
  rendezvous::WireLimits wire;
  rendezvous::StoreLimits store;
  size_t max_unsent_bytes = 0;
  size_t max_held_bytes = 0;
  int kernel_bytes = 0;  // SO_SNDBUF of a session; 0 means the kernel's own size
};

class SessionServer : public rendezvous::StoreSession::Owner {
 public:
  using ConnectionId = rendezvous::ConnectionId;

  struct Observer {
    // The state has performed this request, or refused it. Nothing has been sent yet.
    std::function<void(ConnectionId, const rendezvous::Request&, bool accepted)> performed;
    // `stalled`: replies are lost that the client has not taken.
    std::function<void(ConnectionId, bool stalled)> ended;
  };

  explicit SessionServer(const ServerLimits& limits, Observer observer = {})
      : limits_(limits), observer_(std::move(observer)), state_(limits.store) {}

  // Returns the client's end of a new connection.
  std::pair<ConnectionId, UniqueFd> Connect() {
    int pair[2] = {-1, -1};
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (const int bytes = limits_.kernel_bytes; bytes > 0) {
      Require(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
    }
    const ConnectionId id = next_id_++;
    sessions_[id] = std::make_shared<rendezvous::StoreSession>(
        io_, UniqueFd(pair[1]), false, id, limits_.wire, limits_.max_unsent_bytes, scratch_, *this);
    sessions_[id]->Start();
    return {id, UniqueFd(pair[0])};
  }

  void Run() {
    io_.restart();
    io_.poll();
  }

  void Stop() {
    for (auto& [id, session] : sessions_) session->Close();
    sessions_.clear();
    Run();
  }

  bool Has(ConnectionId connection) const { return sessions_.contains(connection); }
  const rendezvous::StoreState& state() const { return state_; }

  Status OnRequest(ConnectionId from, rendezvous::Request request) override {
    std::vector<rendezvous::OutgoingReply> replies;
    const rendezvous::Request performed = observer_.performed ? request : rendezvous::Request();
    Status status = state_.Handle(from, std::move(request), replies);
    if (observer_.performed) observer_.performed(from, performed, status.ok());
    for (const rendezvous::OutgoingReply& reply : replies) {
      const auto found = sessions_.find(reply.to);
      Require(found != sessions_.end());
      const auto session = found->second;
      session->Queue(reply.reply);
      session->Flush();
      // Sending may have ended it: then nobody is told any more.
    }
    return status;
  }

  void OnEnded(ConnectionId connection) override {
    const auto found = sessions_.find(connection);
    Require(found != sessions_.end());
    held_bytes_ -= found->second->held_bytes();
    const bool stalled = found->second->stalled();
    sessions_.erase(found);
    state_.Disconnect(connection);
    if (sessions_.empty()) Require(held_bytes_ == 0);
    if (observer_.ended) observer_.ended(connection, stalled);
  }

  void OnStalled() override {}

  bool OnHeldBytes(size_t before, size_t now) override {
    held_bytes_ += now - before;
    return held_bytes_ <= limits_.max_held_bytes;
  }

  bool IsForeign(const rendezvous::StoreSession& /*session*/, char first_byte) const override {
    return first_byte == 'd';
  }

  void OnForeign(ConnectionId from, UniqueFd fd, std::string received) override {
    Require(fd.valid() && received.front() == 'd');
    OnEnded(from);
  }

 private:
  const ServerLimits limits_;
  const Observer observer_;
  asio::io_context io_;
  rendezvous::StoreState state_;
  std::map<ConnectionId, std::shared_ptr<rendezvous::StoreSession>> sessions_;
  size_t held_bytes_ = 0;
  ConnectionId next_id_ = 1;
  std::array<char, 4096> scratch_{};
};

}  // namespace ddprun::fuzz

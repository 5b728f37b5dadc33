#include "rendezvous/store/store_server.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/net/acceptor.h"
#include "rendezvous/net/socket.h"
#include "rendezvous/store/connection_room.h"
#include "rendezvous/store/store_session.h"
#include "rendezvous/store/wait_clock.h"

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

// Returns whether this reply ends a wait. It may also answer a check, by a client that does not
// wait.
bool Ends(const Reply& reply) {
  return reply.form == ReplyForm::kStatus && reply.status == kStopWaiting;
}

}  // namespace

class StoreServer::Impl final : public std::enable_shared_from_this<StoreServer::Impl>,
                                public StoreSession::Owner {
 public:
  Impl(asio::io_context& io, Listeners listeners, StoreServerLimits limits)
      : port_(listeners.port),
        io_(io),
        limits_(limits),
        state_(limits.state),
        max_connections_(limits.max_connections > 0 ? limits.max_connections
                                                    : ConnectionsThatFit()),
        acceptor_(std::make_shared<Acceptor>(io, std::move(listeners), AcceptHandlers())),
        door_(std::in_place, io, [this](UniqueFd fd) { OnConnection(std::move(fd), true); }),
        sweep_(io),
        drain_(io) {}

  void Start() { acceptor_->Start(); }

  void Stop() {
    stopped_ = true;
    acceptor_->Stop();
    door_.reset();
    for (auto& [id, session] : sessions_) session->Close();
    sessions_.clear();
    local_.clear();
    on_abandoned_ = nullptr;
    on_exhausted_ = nullptr;
    on_foreign_ = nullptr;
    num_foreign_ = nullptr;
    on_refused_ = nullptr;
    on_drained_ = nullptr;
    sweep_.cancel();
    drain_.cancel();
  }

  void Call(Request request, Handler handler) {
    const ConnectionId id = next_id_++;
    const bool answered = FormOfReply(request.op) != ReplyForm::kNone;
    local_.emplace(id, std::move(handler));
    Status status = Handle(id, std::move(request));
    if (!status.ok()) {
      Complete(id, std::move(status).error());
    } else if (!answered) {
      Complete(id, Reply());
    }
  }

  void Protect(StoreAdmission admission) { door_->Protect(std::move(admission)); }

  void OnAllDisconnected(milliseconds timeout, std::function<void()> handler) {
    on_drained_ = std::move(handler);
    drain_.expires_after(sessions_.empty() ? milliseconds(0) : timeout);
    drain_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->Drained();
    });
  }

  std::vector<ParkedWait> ParkedWaits() const {
    std::vector<ParkedWait> waits;
    for (const auto& [since, id] : LongestWaits(sessions_.size())) {
      const auto& session = sessions_.at(id);
      waits.push_back({session->peer(), session->own(), state_.waits().Missing(id),
                       state_.waits().at_barrier(id), since});
    }
    return waits;
  }

  // Returns the longest waits, at most `most` of them.
  std::vector<std::pair<WaitClock::Time, ConnectionId>> LongestWaits(size_t most) const {
    std::vector<std::pair<WaitClock::Time, ConnectionId>> waits;
    for (const auto& [id, note] : wait_clock_.notes()) {
      if (state_.waits().contains(id)) waits.emplace_back(note.since, id);
    }
    const auto end = waits.begin() + static_cast<ptrdiff_t>(std::min(most, waits.size()));
    std::ranges::partial_sort(waits, end);
    waits.erase(end, waits.end());
    return waits;
  }

  StoreStatus Summary() const {
    StoreStatus status;
    status.connections = sessions_.size();
    status.keys = state_.num_keys();
    status.queue_elements = state_.num_queue_elements();
    status.bytes = state_.total_bytes();
    status.buffered_bytes = held_bytes_;
    const WaitTable& table = state_.waits();
    status.num_waits = static_cast<size_t>(std::ranges::count_if(
        wait_clock_.notes(), [&](const auto& note) { return table.contains(note.first); }));
    const auto now = std::chrono::steady_clock::now();
    for (const auto& [since, id] : LongestWaits(kMostWaitsTold)) {
      status.waits.push_back({sessions_.at(id)->peer(), table.Missing(id, kMostKeysTold),
                              table.NumMissing(id), table.at_barrier(id),
                              std::chrono::duration_cast<milliseconds>(now - since)});
    }
    return status;
  }

  // StoreServer reads and sets these.
  const uint16_t port_;
  std::function<void(const std::vector<std::string>&)> on_abandoned_;
  std::function<void(const Error&)> on_exhausted_;
  char foreign_byte_ = 0;
  std::function<void(UniqueFd, std::string)> on_foreign_;
  std::function<size_t()> num_foreign_;
  std::string refused_prefix_;
  std::function<void(const std::string&)> on_refused_;

 private:
  size_t NumOpen() const {
    return sessions_.size() + door_->size() + (num_foreign_ ? num_foreign_() : 0);
  }

  Acceptor::Handlers AcceptHandlers() {
    return {.on_connection = [this](UniqueFd fd) { OnConnection(std::move(fd), false); },
            .has_room = [this] { return NumOpen() < max_connections_; },
            .on_exhausted =
                [this](int problem) {
                  if (on_exhausted_) on_exhausted_(NoRoomForMore(port_, NumOpen(), problem));
                }};
  }

  Status OnRequest(ConnectionId from, Request request) override {
    if (request.op == Op::kGet && request.key == kStatusKey) {
      sessions_.at(from)->Queue({.form = ReplyForm::kValue, .values = {ToText(Summary())}});
      return {};
    }
    if (on_refused_ && Refused(request)) {
      asio::post(io_, [self = shared_from_this(), peer = sessions_.at(from)->peer()] {
        if (const auto handler = self->on_refused_) handler(peer);
      });
      return Error{.title = "KEY REFUSED"};
    }
    return Handle(from, std::move(request));
  }

  void OnEnded(ConnectionId connection) override {
    held_bytes_ -= sessions_.at(connection)->held_bytes();
    sessions_.erase(connection);
    strangers_.erase(connection);
    wait_clock_.Forget(connection);
    auto missing = on_abandoned_ ? state_.waits().Missing(connection) : std::vector<std::string>();
    state_.Disconnect(connection);
    std::erase_if(missing, [this](const auto& key) { return state_.waits().IsAwaited(key); });
    if (!missing.empty()) {
      // Posts the call, because the handler may destroy the server, which is still at work.
      asio::post(io_, [self = shared_from_this(), missing = std::move(missing)] {
        const auto handler = self->on_abandoned_;
        if (handler) handler(missing);
      });
    }
    if (sessions_.empty() && on_drained_) {
      asio::post(io_, [self = shared_from_this()] {
        if (self->sessions_.empty()) self->Drained();
      });
    }
  }

  bool OnHeldBytes(size_t before, size_t now) override {
    held_bytes_ += now - before;
    return now < before || held_bytes_ <= limits_.max_buffered_bytes;
  }

  void OnStalled() override { ArmSweep(); }

  bool IsForeign(const StoreSession& session, char first_byte) const override {
    return (on_foreign_ && first_byte == foreign_byte_) ||
           (!session.passed() && door_->Stops(first_byte, session.own_end(), session.peer_end()));
  }

  void OnForeign(ConnectionId from, UniqueFd fd, std::string received) override {
    const bool passed = sessions_.at(from)->passed();
    OnEnded(from);
    const SocketEnd own = EndOf(fd.get(), getsockname);
    if (!passed && door_->Stops(received.front(), own, EndOf(fd.get(), getpeername))) {
      return door_->Take(std::move(fd), std::move(received));
    }
    // Posts the call, because the handler may destroy the server.
    asio::post(io_, [self = shared_from_this(), fd = std::move(fd),
                     received = std::move(received)]() mutable {
      if (const auto handler = self->on_foreign_) handler(std::move(fd), std::move(received));
    });
  }

  bool Refused(const Request& request) const {
    const auto refused = [&](const std::string& key) { return key.starts_with(refused_prefix_); };
    return refused(request.key) || std::ranges::any_of(request.keys, refused);
  }

  // Performs a request, and sends all replies that it causes.
  Status Handle(ConnectionId from, Request request) {
    std::vector<OutgoingReply> replies;
    const bool may_park = request.op == Op::kWait || request.op == Op::kBarrier;
    const size_t hash = may_park ? WaitClock::HashOf(request) : 0;
    Status status = state_.Handle(from, std::move(request), replies);
    if (may_park && state_.waits().contains(from) && sessions_.contains(from)) {
      wait_clock_.Parked(from, hash, std::chrono::steady_clock::now());
    }
    for (OutgoingReply& outgoing : replies) {
      if (Ends(outgoing.reply)) wait_clock_.Forget(outgoing.to);
      // Looks up each session anew, because sending may end another one.
      const auto found = sessions_.find(outgoing.to);
      if (found == sessions_.end()) {
        Complete(outgoing.to, std::move(outgoing.reply));
        continue;
      }
      const auto session = found->second;
      session->Queue(outgoing.reply);
      session->Flush();
    }
    return status;
  }

  void Complete(ConnectionId id, Result<Reply> result) {
    auto node = local_.extract(id);
    if (node.empty()) return;
    asio::post(io_, [self = shared_from_this(), handler = std::move(node.mapped()),
                     result = std::move(result)]() mutable {
      if (!self->stopped_) handler(std::move(result));
    });
  }

  void OnConnection(UniqueFd fd, bool passed) {
    const ConnectionId id = next_id_++;
    if (!passed && door_->IsStrange(EndOf(fd.get(), getpeername).address)) {
      // Half of the room is for those who belong to the job.
      if (strangers_.size() + door_->size() >= max_connections_ / 2) return;
      strangers_.insert(id);
    }
    const auto session = std::make_shared<StoreSession>(
        io_, std::move(fd), passed, id, limits_.wire, limits_.max_unsent_bytes, scratch_, *this);
    sessions_.emplace(id, session);
    session->Start();
    ArmSweep();
  }

  // Starts the timer of Sweep() if it does not run. It runs only while there is a connection that
  // Sweep() might have to close, so that an idle agent sleeps.
  void ArmSweep() {
    if (std::exchange(sweeping_, true)) return;
    const auto shortest = std::min(limits_.handshake_timeout, limits_.stalled_write_timeout);
    sweep_.expires_after(std::clamp(shortest / 4, milliseconds(1), milliseconds(5000)));
    sweep_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      self->sweeping_ = false;
      if (!error && !self->stopped_) self->Sweep();
    });
  }

  void Sweep() {
    const auto now = std::chrono::steady_clock::now();
    std::vector<ConnectionId> offenders;
    bool suspects = false;
    for (const auto& [id, session] : sessions_) {
      if (session->validated() && !session->stalled()) continue;
      suspects = true;
      const auto allowed =
          session->validated() ? limits_.stalled_write_timeout : limits_.handshake_timeout;
      if (now - session->since() >= allowed) offenders.push_back(id);
    }
    for (const ConnectionId id : offenders) {
      sessions_.at(id)->Close();
      OnEnded(id);
    }
    if (suspects) ArmSweep();
  }

  void Drained() {
    drain_.cancel();
    if (const auto handler = std::exchange(on_drained_, nullptr)) handler();
  }

  asio::io_context& io_;
  const StoreServerLimits limits_;
  StoreState state_;
  const size_t max_connections_;
  const std::shared_ptr<Acceptor> acceptor_;
  std::optional<StoreDoor> door_;
  size_t held_bytes_ = 0;  // of all sessions
  std::unordered_map<ConnectionId, std::shared_ptr<StoreSession>> sessions_;
  std::unordered_set<ConnectionId> strangers_;  // sessions that have not been at the door yet
  std::unordered_map<ConnectionId, Handler> local_;
  WaitClock wait_clock_;
  std::function<void()> on_drained_;
  asio::steady_timer sweep_;
  asio::steady_timer drain_;
  ConnectionId next_id_ = 1;
  bool sweeping_ = false;
  bool stopped_ = false;
  std::array<char, 64 << 10> scratch_;
};

Result<std::unique_ptr<StoreServer>> StoreServer::Listen(
    asio::io_context& io,
    std::span<const asio::ip::address> addresses,
    uint16_t port,
    StoreServerLimits limits) {
  DDPRUN_ASSIGN(Listeners listeners, ListenOn(addresses, port));
  const auto impl = std::make_shared<Impl>(io, std::move(listeners), limits);
  impl->Start();
  return std::unique_ptr<StoreServer>(new StoreServer(impl));
}

Result<std::unique_ptr<StoreServer>> StoreServer::Listen(asio::io_context& io,
                                                         const asio::ip::address& address,
                                                         uint16_t port,
                                                         StoreServerLimits limits) {
  return Listen(io, std::span(&address, 1), port, limits);
}

StoreServer::StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() {
  impl_->Stop();
}

uint16_t StoreServer::port() const {
  return impl_->port_;
}

void StoreServer::Call(Request request, Handler handler) {
  impl_->Call(std::move(request), std::move(handler));
}

void StoreServer::OnForeignConnection(char first_byte,
                                      std::function<void(UniqueFd, std::string)> handler,
                                      std::function<size_t()> num_open) {
  impl_->foreign_byte_ = first_byte;
  impl_->num_foreign_ = std::move(num_open);
  impl_->on_foreign_ = std::move(handler);
}

void StoreServer::RefuseKeys(std::string prefix,
                             std::function<void(const std::string& peer)> handler) {
  impl_->refused_prefix_ = std::move(prefix);
  impl_->on_refused_ = std::move(handler);
}

void StoreServer::Protect(StoreAdmission admission) {
  impl_->Protect(std::move(admission));
}

void StoreServer::OnAbandonedWait(
    std::function<void(const std::vector<std::string>& keys)> handler) {
  impl_->on_abandoned_ = std::move(handler);
}

void StoreServer::OnExhausted(std::function<void(const Error& error)> handler) {
  impl_->on_exhausted_ = std::move(handler);
}

void StoreServer::OnAllDisconnected(milliseconds timeout, std::function<void()> handler) {
  impl_->OnAllDisconnected(timeout, std::move(handler));
}

std::vector<ParkedWait> StoreServer::ParkedWaits() const {
  return impl_->ParkedWaits();
}

StoreStatus StoreServer::Summary() const {
  return impl_->Summary();
}

}  // namespace ddprun::rendezvous

#include "rendezvous/store/store_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <unordered_map>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/net/listener.h"
#include "rendezvous/store/store_session.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;
using std::chrono::milliseconds;

// When the process has no descriptor left for another connection.
constexpr milliseconds kAcceptPause{100};
// Accepted in a row before others have their turn.
constexpr int kAcceptBatch = 256;

struct WaitNote {
  size_t hash = 0;  // of the keys
  std::chrono::steady_clock::time_point since;
};

size_t HashOfKeys(const Request& request) {
  size_t hash = std::hash<std::string>()(request.key);
  for (const std::string& key : request.keys) hash = hash * 31 + std::hash<std::string>()(key);
  return hash;
}

// Whether a wait has come to its end with this reply. (Or a check has, when nothing waits.)
bool Ends(const Reply& reply) {
  return reply.form == ReplyForm::kStatus && reply.status == kStopWaiting;
}

}  // namespace

class StoreServer::Impl final : public std::enable_shared_from_this<StoreServer::Impl>,
                                public StoreSession::Owner {
 public:
  Impl(asio::io_context& io, Listeners listeners, StoreServerLimits limits)
      : io_(io),
        limits_(limits),
        port_(listeners.port),
        state_(limits.state),
        sweep_(io),
        drain_(io),
        accept_pause_(io) {
    for (UniqueFd& fd : listeners.fds) acceptors_.emplace_back(io, fd.release());
  }

  void Start() {
    for (stream_descriptor& acceptor : acceptors_) ArmAccept(acceptor);
  }

  void Stop() {
    stopped_ = true;
    asio::error_code ignored;
    for (stream_descriptor& acceptor : acceptors_) acceptor.close(ignored);
    for (auto& [id, session] : sessions_) session->Close();
    sessions_.clear();
    local_.clear();
    on_abandoned_ = nullptr;
    on_foreign_ = nullptr;
    on_refused_ = nullptr;
    on_drained_ = nullptr;
    sweep_.cancel();
    drain_.cancel();
    accept_pause_.cancel();
  }

  uint16_t port() const { return port_; }
  size_t num_connections() const { return sessions_.size(); }
  size_t num_keys() const { return state_.num_keys(); }

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

  void OnForeignConnection(char first_byte, std::function<void(UniqueFd, std::string)> handler) {
    foreign_byte_ = first_byte;
    on_foreign_ = std::move(handler);
  }

  void RefuseKeys(std::string prefix, std::function<void(const std::string&)> handler) {
    refused_prefix_ = std::move(prefix);
    on_refused_ = std::move(handler);
  }

  void OnAbandonedWait(std::function<void(const std::vector<std::string>&)> handler) {
    on_abandoned_ = std::move(handler);
  }

  void OnAllDisconnected(milliseconds timeout, std::function<void()> handler) {
    on_drained_ = std::move(handler);
    drain_.expires_after(sessions_.empty() ? milliseconds(0) : timeout);
    drain_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->Drained();
    });
  }

  std::vector<ParkedWait> ParkedWaits() const {
    std::vector<ParkedWait> waits;
    for (const auto& [id, note] : wait_notes_) {
      if (!state_.waits().contains(id)) continue;
      const auto& session = sessions_.at(id);
      waits.push_back({session->peer(), session->own(), state_.waits().Missing(id),
                       state_.waits().at_barrier(id), note.since});
    }
    std::ranges::sort(waits, {}, &ParkedWait::since);
    return waits;
  }

 private:
  Status OnRequest(ConnectionId from, Request request) override {
    if (on_refused_ && Refused(request)) {
      asio::post(io_, [self = shared_from_this(), peer = sessions_.at(from)->peer()] {
        if (const auto handler = self->on_refused_) handler(peer);
      });
      return Error{.title = "KEY REFUSED", .where = "", .what = "", .hint = "", .page = ""};
    }
    return Handle(from, std::move(request));
  }

  void OnEnded(ConnectionId connection) override {
    sessions_.erase(connection);
    wait_notes_.erase(connection);
    auto missing = state_.Disconnect(connection);
    if (!missing.empty() && on_abandoned_) {
      // Posted, because the handler may destroy the server, which is in the middle of something.
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

  void OnStalled() override { ArmSweep(); }

  bool IsForeign(char first_byte) const override {
    return on_foreign_ && first_byte == foreign_byte_;
  }

  void OnForeign(ConnectionId from, UniqueFd fd, std::string received) override {
    OnEnded(from);
    // Posted, because the handler may destroy the server.
    asio::post(io_, [self = shared_from_this(), fd = std::move(fd),
                     received = std::move(received)]() mutable {
      if (const auto handler = self->on_foreign_) handler(std::move(fd), std::move(received));
    });
  }

  bool Refused(const Request& request) const {
    const auto refused = [&](const std::string& key) { return key.starts_with(refused_prefix_); };
    return refused(request.key) || std::ranges::any_of(request.keys, refused);
  }

  // Performs a request and sends what it causes, to whomever.
  Status Handle(ConnectionId from, Request request) {
    std::vector<OutgoingReply> replies;
    const bool may_park = request.op == Op::kWait || request.op == Op::kBarrier;
    const size_t hash = may_park ? HashOfKeys(request) : 0;
    Status status = state_.Handle(from, std::move(request), replies);
    if (may_park && state_.waits().contains(from)) NoteWait(from, hash);
    for (OutgoingReply& outgoing : replies) {
      if (Ends(outgoing.reply)) wait_notes_.erase(outgoing.to);
      // Looked up anew each time: sending may end a session.
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

  // A client that cancels a wait and repeats it has been waiting all the time: what it waits for
  // is what tells.
  void NoteWait(ConnectionId connection, size_t hash) {
    if (!sessions_.contains(connection)) return;  // the host's own
    const auto [note, is_new] = wait_notes_.try_emplace(connection);
    if (is_new || note->second.hash != hash) {
      note->second = {hash, std::chrono::steady_clock::now()};
    }
  }

  void Complete(ConnectionId id, Result<Reply> result) {
    auto node = local_.extract(id);
    if (node.empty()) return;
    asio::post(io_, [self = shared_from_this(), handler = std::move(node.mapped()),
                     result = std::move(result)]() mutable {
      if (!self->stopped_) handler(std::move(result));
    });
  }

  void ArmAccept(stream_descriptor& acceptor) {
    acceptor.async_wait(stream_descriptor::wait_read,
                        [self = shared_from_this(), &acceptor](const asio::error_code& error) {
                          if (!error && !self->stopped_) self->Accept(acceptor);
                        });
  }

  void Accept(stream_descriptor& acceptor) {
    for (int i = 0; i < kAcceptBatch; ++i) {
      UniqueFd fd(
          accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        const bool exhausted =
            errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (exhausted) return PauseAccept(acceptor);
        if (errno == EAGAIN) break;
        continue;  // this connection died in the queue
      }
      const ConnectionId id = next_id_++;
      const auto session = std::make_shared<StoreSession>(
          io_, std::move(fd), id, limits_.wire, limits_.max_unsent_bytes, scratch_, *this);
      sessions_.emplace(id, session);
      session->Start();
      ArmSweep();
    }
    ArmAccept(acceptor);
  }

  void PauseAccept(stream_descriptor& acceptor) {
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([self = shared_from_this(), &acceptor](const asio::error_code&) {
      if (!self->stopped_) self->Accept(acceptor);
    });
  }

  // Runs only while there is a connection that it might have to close, so that an idle agent
  // sleeps.
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
  const uint16_t port_;
  StoreState state_;
  std::vector<stream_descriptor> acceptors_;
  std::unordered_map<ConnectionId, std::shared_ptr<StoreSession>> sessions_;
  std::unordered_map<ConnectionId, Handler> local_;
  std::unordered_map<ConnectionId, WaitNote> wait_notes_;  // of waits open or cancelled
  std::function<void(const std::vector<std::string>&)> on_abandoned_;
  std::function<void()> on_drained_;
  char foreign_byte_ = 0;
  std::function<void(UniqueFd, std::string)> on_foreign_;
  std::string refused_prefix_;
  std::function<void(const std::string&)> on_refused_;
  asio::steady_timer sweep_;
  asio::steady_timer drain_;
  asio::steady_timer accept_pause_;
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
  return impl_->port();
}

void StoreServer::Call(Request request, Handler handler) {
  impl_->Call(std::move(request), std::move(handler));
}

void StoreServer::OnForeignConnection(char first_byte,
                                      std::function<void(UniqueFd, std::string)> handler) {
  impl_->OnForeignConnection(first_byte, std::move(handler));
}

void StoreServer::RefuseKeys(std::string prefix,
                             std::function<void(const std::string& peer)> handler) {
  impl_->RefuseKeys(std::move(prefix), std::move(handler));
}

void StoreServer::OnAbandonedWait(
    std::function<void(const std::vector<std::string>& keys)> handler) {
  impl_->OnAbandonedWait(std::move(handler));
}

void StoreServer::OnAllDisconnected(milliseconds timeout, std::function<void()> handler) {
  impl_->OnAllDisconnected(timeout, std::move(handler));
}

size_t StoreServer::num_connections() const {
  return impl_->num_connections();
}

size_t StoreServer::num_keys() const {
  return impl_->num_keys();
}

std::vector<ParkedWait> StoreServer::ParkedWaits() const {
  return impl_->ParkedWaits();
}

}  // namespace ddprun::rendezvous

#include "rendezvous/store/store_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <functional>
#include <optional>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "base/unique_fd.h"
#include "rendezvous/net/async_connect.h"
#include "rendezvous/store/tcp_store.h"
#include "rendezvous/store/wire_decoder.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{1000};
constexpr milliseconds kGreetingTimeout{3000};
constexpr size_t kReadBytes = 16 << 10;

Error StoreGone(const HostPort& server, const std::string& reason) {
  return {.code = Code::kRendezvous,
          .title = "STORE WENT AWAY",
          .where = ToString(server),
          .what = "The connection to the store at " + ToString(server) + " ended: " + reason + ".",
          .hint = "Node 0 hosts the store: its own output says why it stopped.",
          .page = "store-went-away"};
}

Error CannotReach(const HostPort& server, const std::string& reason) {
  return {
      .code = Code::kRendezvous,
      .title = "CANNOT REACH THE STORE",
      .where = ToString(server),
      .what = "No store answered at " + ToString(server) +
              " before the deadline: " + (reason.empty() ? "no attempt has ended" : reason) + ".",
      .hint =
          "Node 0 hosts it. Check that node 0 has been started, that host and port are the same on "
          "every node,\nand that no firewall is between them.",
      .page = "cannot-reach-store"};
}

}  // namespace

class StoreConnection::Impl : public std::enable_shared_from_this<StoreConnection::Impl> {
 public:
  Impl(asio::io_context& io, HostPort server, std::shared_ptr<Gate> gate, Deadline deadline)
      : io_(io),
        server_(std::move(server)),
        gate_(std::move(gate)),
        deadline_(deadline),
        socket_(io),
        attempt_timer_(io),
        deadline_timer_(io) {}

  void Start() {
    deadline_timer_.expires_at(deadline_);
    deadline_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (error || self->ended_ || self->connected_) return;
      self->Fail(CannotReach(self->server_, self->problem_));
    });
    Connect();
  }

  void Stop() {
    stopped_ = true;
    calls_.clear();
    End();
  }

  void Call(Request request, Handler handler) {
    if (failure_) {
      asio::post(io_, [self = shared_from_this(), error = *failure_, handler = std::move(handler)] {
        if (!self->stopped_) handler(error);
      });
      return;
    }
    calls_.push_back({std::move(request), std::move(handler)});
    if (connected_ && calls_.size() == 1) SendFront();
  }

  bool connected() const { return connected_ && !ended_; }
  const std::string& problem() const { return problem_; }

 private:
  struct PendingCall {
    Request request;
    Handler handler;
  };

  void Connect() {
    connect_.emplace(io_, server_, gate_, [self = shared_from_this()](Result<UniqueFd> fd) {
      if (self->ended_) return;
      if (fd.has_value()) return self->OnConnected(*std::move(fd));
      if (fd.error().code == Code::kRendezvous) return self->Fail(std::move(fd).error());
      self->problem_ = fd.error().what;
      self->Pause();
    });
  }

  void OnConnected(UniqueFd fd) {
    socket_.assign(fd.release());
    ++attempt_;
    attempt_timer_.expires_after(kGreetingTimeout);
    attempt_timer_.async_wait(
        [self = shared_from_this(), attempt = attempt_](const asio::error_code& error) {
          if (error || attempt != self->attempt_) return;
          self->AttemptFailed("what listens there does not answer");
        });
    // Sends both in one segment, because torch's libuv server drops a connection whose first
    // message is split.
    EncodeRequest({.op = Op::kValidate, .nonce = kValidateMagic}, out_);
    EncodeRequest(Greeting(), out_);
    decoder_.Expect(Op::kPing, 0);
    Send();
    Arm(stream_descriptor::wait_read, &Impl::OnReadable);
  }

  static Request Greeting() { return {.nonce = static_cast<uint32_t>(getpid())}; }

  void AttemptFailed(const std::string& reason) {
    ++attempt_;  // pending handlers of this attempt do nothing
    problem_ = reason;
    attempt_timer_.cancel();
    out_.clear();
    sent_ = 0;
    asio::error_code ignored;
    socket_.close(ignored);
    connect_->Next(reason);
  }

  void Pause() {
    attempt_timer_.expires_after(pause_);
    pause_ = std::min(pause_ * 3 / 2 + milliseconds(1), kLongestPause);
    attempt_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && !self->ended_) self->Connect();
    });
  }

  void SendFront() {
    const Request& request = calls_.front().request;
    const bool answered = FormOfReply(request.op) != ReplyForm::kNone;
    EncodeRequest(request, out_);
    // A ping follows a request without an answer: its answer shows that the store has done both.
    if (!answered) EncodeRequest(Greeting(), out_);
    decoder_.Expect(answered ? request.op : Op::kPing, request.keys.size());
    Send();
  }

  void Send() {
    while (sent_ < out_.size()) {
      const ssize_t count =
          send(socket_.native_handle(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
      if (count >= 0) {
        sent_ += static_cast<size_t>(count);
      } else if (errno == EAGAIN) {
        return Arm(stream_descriptor::wait_write, &Impl::Send);
      } else if (errno != EINTR) {
        return;  // reading reports how the connection ended
      }
    }
    out_.clear();
    sent_ = 0;
  }

  void Arm(stream_descriptor::wait_type wait, void (Impl::*then)()) {
    socket_.async_wait(
        wait, [self = shared_from_this(), attempt = attempt_, then](const asio::error_code& error) {
          if (!error && attempt == self->attempt_) std::invoke(then, self);
        });
  }

  void OnReadable() {
    char buffer[kReadBytes];
    const ssize_t count = recv(socket_.native_handle(), buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return Arm(stream_descriptor::wait_read, &Impl::OnReadable);
    }
    if (count <= 0) return Lost(count == 0 ? "closed by the other side" : ErrnoText(errno));
    std::string_view input(buffer, static_cast<size_t>(count));
    while (!input.empty()) {
      Reply reply;
      auto complete = decoder_.Next(input, reply);
      if (!complete.has_value()) return Lost(complete.error().what);
      if (!*complete) break;
      if (!connected_) {
        if (reply.nonce != Greeting().nonce) {
          return Fail(NoStoreThere(server_, std::string_view(buffer, static_cast<size_t>(count))));
        }
        OnGreeted();
      } else if (calls_.empty()) {
        return Lost("an answer that nobody asked for");
      } else {
        Answer(std::move(reply));
      }
      if (ended_) return;
    }
    Arm(stream_descriptor::wait_read, &Impl::OnReadable);
  }

  void OnGreeted() {
    connected_ = true;
    attempt_timer_.cancel();
    deadline_timer_.cancel();
    if (!calls_.empty()) SendFront();
  }

  void Answer(Reply reply) {
    const Handler handler = std::move(calls_.front().handler);
    calls_.pop_front();
    if (!calls_.empty()) SendFront();
    handler(std::move(reply));
  }

  void Lost(const std::string& reason) {
    if (!connected_) return AttemptFailed(reason);
    Fail(StoreGone(server_, reason));
  }

  void Fail(Error error) {
    failure_ = std::move(error);
    End();
    // A handler may destroy the connection, which clears calls_ and so drops the other handlers.
    while (!calls_.empty()) {
      const Handler handler = std::move(calls_.front().handler);
      calls_.pop_front();
      handler(*failure_);
    }
  }

  void End() {
    ended_ = true;
    ++attempt_;
    connect_.reset();
    attempt_timer_.cancel();
    deadline_timer_.cancel();
    asio::error_code ignored;
    socket_.close(ignored);
  }

  asio::io_context& io_;
  const HostPort server_;
  const std::shared_ptr<Gate> gate_;
  const Deadline deadline_;
  std::optional<AsyncConnect> connect_;
  stream_descriptor socket_;
  asio::steady_timer attempt_timer_;
  asio::steady_timer deadline_timer_;
  uint64_t attempt_ = 0;  // handlers of earlier attempts do nothing
  milliseconds pause_ = kFirstPause;
  std::string problem_;
  std::string out_;
  size_t sent_ = 0;
  ReplyDecoder decoder_;
  std::deque<PendingCall> calls_;  // the first one has been sent once connected_
  std::optional<Error> failure_;
  bool connected_ = false;
  bool ended_ = false;
  bool stopped_ = false;
};

StoreConnection::StoreConnection(asio::io_context& io,
                                 HostPort server,
                                 std::shared_ptr<Gate> gate,
                                 Deadline connect_deadline)
    : impl_(std::make_shared<Impl>(io, std::move(server), std::move(gate), connect_deadline)) {
  impl_->Start();
}

StoreConnection::~StoreConnection() {
  impl_->Stop();
}

void StoreConnection::Call(Request request, Handler handler) {
  impl_->Call(std::move(request), std::move(handler));
}

bool StoreConnection::connected() const {
  return impl_->connected();
}

std::string StoreConnection::last_problem() const {
  return impl_->problem();
}

StoreWatch::StoreWatch(asio::io_context& io,
                       const HostPort& server,
                       std::shared_ptr<Gate> gate,
                       Deadline connect_deadline,
                       std::string key,
                       Handler handler)
    : connection_(io, server, std::move(gate), connect_deadline) {
  // Made before the call, because the handler moves the key away, and the order in which arguments
  // are evaluated is not defined.
  Request wait = KeysRequest(Op::kWait, {key});
  connection_.Call(std::move(wait),
                   [this, key = std::move(key), handler = std::move(handler)](Result<Reply> woken) {
                     if (!woken.has_value()) return handler(std::move(woken).error());
                     connection_.Call(KeyRequest(Op::kGet, key), [handler](Result<Reply> reply) {
                       if (!reply.has_value()) return handler(std::move(reply).error());
                       handler(std::move(reply->values.front()));
                     });
                   });
}

}  // namespace ddprun::rendezvous

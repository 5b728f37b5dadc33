#include "rendezvous/secure/token_gate.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <set>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include "rendezvous/net/socket.h"
#include "rendezvous/secure/handshake.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;

// Moves the messages of one end over a connection.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context& io,
           UniqueFd fd,
           std::string received,
           std::unique_ptr<HandshakeEnd> end,
           Gate::Handler done)
      : io_(io),
        socket_(io, fd.release()),
        received_(std::move(received)),
        end_(std::move(end)),
        done_(std::move(done)) {}

  void Start() {
    Send(end_->Begin());
    Proceed();
  }

  void Stop() {
    done_ = nullptr;
    asio::error_code ignored;
    socket_.close(ignored);
  }

 private:
  void Proceed() {
    HandshakeStep step = end_->Take(received_);
    Send(step.answer);
    received_.erase(0, step.used);
    if (step.next == HandshakeStep::Next::kPassed) return Finish(UniqueFd(socket_.release()));
    if (step.next == HandshakeStep::Next::kFailed) return Fail(std::move(step.error));
    socket_.async_wait(stream_descriptor::wait_read,
                       [self = shared_from_this()](const asio::error_code& error) {
                         if (!error && self->done_) self->Receive();
                       });
  }

  void Receive() {
    std::array<char, HandshakeEnd::kLongestMessage> buffer;
    const ssize_t count = recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
    // Closed, or closed with a message of ours unread.
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return Fail(end_->Closed());
    if (count > 0) {
      received_.append(buffer.data(), static_cast<size_t>(count));
    } else if (errno != EAGAIN && errno != EINTR) {
      return Fail({.what = ErrnoText(errno)});
    }
    Proceed();
  }

  // Each message fits into the empty buffer of a new connection. If the connection has ended,
  // reading tells it.
  void Send(const std::string& bytes) {
    if (bytes.empty()) return;
    [[maybe_unused]] const ssize_t sent =
        send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  void Fail(Error error) {
    asio::error_code ignored;
    socket_.close(ignored);
    Finish(std::move(error));
  }

  void Finish(Result<UniqueFd> result) {
    asio::post(io_, [self = shared_from_this(), result = std::move(result)]() mutable {
      if (const auto done = std::exchange(self->done_, nullptr)) done(std::move(result));
    });
  }

  asio::io_context& io_;
  stream_descriptor socket_;
  std::string received_;
  const std::unique_ptr<HandshakeEnd> end_;
  Gate::Handler done_;
};

class ExchangeOwner final : public Handshake {
 public:
  explicit ExchangeOwner(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {
    exchange_->Start();
  }
  ~ExchangeOwner() override { exchange_->Stop(); }
  ExchangeOwner(const ExchangeOwner&) = delete;
  ExchangeOwner& operator=(const ExchangeOwner&) = delete;

 private:
  const std::shared_ptr<Exchange> exchange_;
};

class TokenGate final : public Gate, public std::enable_shared_from_this<TokenGate> {
 public:
  explicit TokenGate(Token token) : token_(std::move(token)) {}

  std::unique_ptr<Handshake> Show(asio::io_context& io, UniqueFd fd, Handler done) override {
    return std::make_unique<ExchangeOwner>(std::make_shared<Exchange>(
        io, std::move(fd), "", MakeClientEnd(token_, RandomNonce()), std::move(done)));
  }

  std::unique_ptr<Handshake> Check(asio::io_context& io,
                                   UniqueFd fd,
                                   std::string received,
                                   Handler done) override {
    const asio::ip::address peer = EndOf(fd.get(), getpeername).address;
    return std::make_unique<ExchangeOwner>(std::make_shared<Exchange>(
        io, std::move(fd), std::move(received), MakeServerEnd(token_, RandomNonce()),
        [self = shared_from_this(), peer, done = std::move(done)](Result<UniqueFd> checked) {
          if (checked.has_value()) self->known_.insert(peer);
          done(std::move(checked));
        }));
  }

  bool Knows(const asio::ip::address& address) const override { return known_.contains(address); }

 private:
  const Token token_;
  std::set<asio::ip::address> known_;
};

}  // namespace

std::shared_ptr<Gate> MakeTokenGate(Token token) {
  return std::make_shared<TokenGate>(std::move(token));
}

Result<std::shared_ptr<Gate>> TakeGate(Environment& env) {
  DDPRUN_ASSIGN(std::optional<Token> token, TakeToken(env));
  return token ? MakeTokenGate(*std::move(token)) : nullptr;
}

}  // namespace ddprun::rendezvous

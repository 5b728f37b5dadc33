#include "rendezvous/net/async_connect.h"

#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/net/async_resolve.h"
#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;

constexpr std::chrono::milliseconds kAddressTimeout{3000};

}  // namespace

class AsyncConnect::Impl : public std::enable_shared_from_this<AsyncConnect::Impl> {
 public:
  Impl(asio::io_context& io,
       HostPort endpoint,
       std::shared_ptr<Gate> gate,
       std::function<void(Result<UniqueFd>)> handler)
      : io_(io),
        endpoint_(std::move(endpoint)),
        gate_(std::move(gate)),
        handler_(std::move(handler)),
        socket_(io),
        timer_(io) {}

  void Start() {
    resolve_.emplace(io_, endpoint_.host,
                     [self = shared_from_this()](Result<std::vector<asio::ip::address>> found) {
                       if (!self->handler_) return;
                       if (!found.has_value()) {
                         self->problem_ = found.error().what;
                         return self->TryNext();
                       }
                       self->addresses_.assign(found->begin(), found->end());
                       self->TryNext();
                     });
  }

  void Stop() {
    handler_ = nullptr;
    resolve_.reset();
    handshake_.reset();
    timer_.cancel();
    asio::error_code ignored;
    socket_.close(ignored);
  }

  void Next(const std::string& problem) {
    ++attempt_;
    problem_ = problem;
    handshake_.reset();
    asio::error_code ignored;
    socket_.close(ignored);
    TryNext();
  }

 private:
  void TryNext() {
    if (addresses_.empty()) {
      Error error;
      error.where = address_;
      error.what = problem_.empty() ? endpoint_.host + " has no address" : problem_;
      return Finish(std::move(error));
    }
    const asio::ip::address target = addresses_.front();
    addresses_.pop_front();
    address_ = target.to_string();
    UniqueFd fd;
    if (const int failure = BeginConnect(target, endpoint_.port, fd); failure != 0)
      return Failed(failure);
    socket_.assign(fd.release());
    const int attempt = ++attempt_;
    timer_.expires_after(kAddressTimeout);
    timer_.async_wait([self = shared_from_this(), attempt](const asio::error_code& error) {
      if (!error && self->handler_ && attempt == self->attempt_) self->Failed(ETIMEDOUT);
    });
    socket_.async_wait(stream_descriptor::wait_write,
                       [self = shared_from_this(), attempt](const asio::error_code& error) {
                         if (error || !self->handler_ || attempt != self->attempt_) return;
                         self->OnConnected();
                       });
  }

  void OnConnected() {
    const int failure = EndConnect(socket_.native_handle());
    if (failure != 0) return Failed(failure);
    UniqueFd connection(socket_.release());
    if (gate_ == nullptr) return Finish(std::move(connection));
    // The timer of the attempt goes on.
    handshake_ = gate_->Show(io_, std::move(connection),
                             [self = shared_from_this()](Result<UniqueFd> shown) {
                               if (self->handler_) self->OnShown(std::move(shown));
                             });
  }

  void OnShown(Result<UniqueFd> shown) {
    if (!shown.has_value() && shown.error().code != Code::kRendezvous) {
      return Next(shown.error().what);
    }
    if (!shown.has_value())
      shown.error().where = EndpointText(asio::ip::make_address(address_), endpoint_.port);
    Finish(std::move(shown));
  }

  void Failed(int problem) { Next(ErrnoText(problem)); }

  void Finish(Result<UniqueFd> result) {
    ++attempt_;
    timer_.cancel();
    handshake_.reset();
    const auto handler = handler_;  // a copy, because the handler may destroy the owner
    handler(std::move(result));
  }

  asio::io_context& io_;
  const HostPort endpoint_;
  const std::shared_ptr<Gate> gate_;
  std::function<void(Result<UniqueFd>)> handler_;
  std::optional<AsyncResolve> resolve_;
  std::unique_ptr<Handshake> handshake_;
  std::deque<asio::ip::address> addresses_;
  std::string address_;  // the address tried last
  stream_descriptor socket_;
  asio::steady_timer timer_;
  int attempt_ = 0;  // handlers of earlier attempts do nothing
  std::string problem_;
};

AsyncConnect::AsyncConnect(asio::io_context& io,
                           HostPort endpoint,
                           std::shared_ptr<Gate> gate,
                           std::function<void(Result<UniqueFd>)> handler)
    : impl_(std::make_shared<Impl>(io, std::move(endpoint), std::move(gate), std::move(handler))) {
  impl_->Start();
}

AsyncConnect::~AsyncConnect() {
  impl_->Stop();
}

void AsyncConnect::Next(const std::string& problem) {
  impl_->Next(problem);
}

}  // namespace ddprun::rendezvous
